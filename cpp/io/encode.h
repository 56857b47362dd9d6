// Encodes images: JPEG with libjpeg-turbo and PNG with libpng.
#pragma once
#include <cstddef>
#include <vector>

#include "cpp/io/decode.h"

namespace mxlite::io {

// An image in memory. Its rows must be contiguous.
struct PixelBlock {
  const unsigned char* data = nullptr;
  int height = 0, width = 0;
  ColorOrder order = ColorOrder::kBGR;
};

enum class ImageFormat : uint8_t { kJpeg, kPng };

// Returns the same bytes as OpenCV's imencode. JPEG has 4:2:0 chroma subsampling and no alpha.
// `quality` is 1 to 100 for JPEG. For PNG, it is the compression level, 0 to 9.
std::vector<std::byte> encode_image(const PixelBlock& image, ImageFormat format, int quality);

}  // namespace mxlite::io
