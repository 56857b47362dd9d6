// JPEG encoding with libjpeg-turbo.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cpp/io/decode.h"

namespace mxlite::io {

struct PixelBlock {
  const unsigned char* data = nullptr;
  int height = 0, width = 0;
  ColorOrder order = ColorOrder::kBGR;
};

// Rows without gaps; 4:2:0 for colours, as OpenCV writes. quality: 1 to 100.
std::vector<std::byte> encode_jpeg(const PixelBlock& image, int quality);

}  // namespace mxlite::io
