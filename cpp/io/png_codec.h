// Decodes and encodes PNG with libpng; other files include decode.h and encode.h instead.
#pragma once
#include "cpp/io/decode.h"
#include "cpp/io/encode.h"

namespace mxlite::io {

ImageInfo read_png_header(std::span<const std::byte> bytes, const std::string& name);
// Samples of 16 bits lose their lower half; alpha is dropped without blending unless asked for.
void decode_png(std::span<const std::byte> bytes, const DecodeOptions& options,
                unsigned char* pixels);
// level: 0 (fast) to 9 (small).
std::vector<std::byte> encode_png(const PixelBlock& image, int level);

}  // namespace mxlite::io
