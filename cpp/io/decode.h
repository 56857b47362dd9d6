// JPEG decoding with libjpeg-turbo.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

enum class ColorOrder : uint8_t { kGray, kRGB, kBGR };

struct JpegInfo {
  int width = 0, height = 0;
  bool gray = false;
};

struct DecodeOptions {
  ColorOrder order = ColorOrder::kRGB;
  // Decode at 1/denominator of the size (1, 2, 4, 8): cheaper when the image is shrunk anyway.
  int denominator = 1;
  std::string name = "imdecode";  // file or function, for errors
};

bool is_jpeg(std::span<const std::byte> bytes);
// Size from the header alone. Throws kRecord naming options.name when it is no JPEG.
JpegInfo read_jpeg_header(std::span<const std::byte> bytes, const std::string& name);
// uint8 (height, width, channels). Throws kRecord on corrupt or truncated data.
NDArrayRef decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options);

// The same into memory for that many bytes; nothing is allocated.
void decode_jpeg_into(std::span<const std::byte> bytes, const DecodeOptions& options,
                      unsigned char* pixels);

}  // namespace mxlite::io
