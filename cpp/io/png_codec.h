// Decodes and encodes PNG with libpng. Other files include decode.h and encode.h instead of this
// header.
#pragma once
#include "cpp/io/decode.h"
#include "cpp/io/encode.h"

namespace mxlite::io {

ImageInfo read_png_header(std::span<const std::byte> bytes, const std::string& name);
// Keeps only the high byte of 16-bit samples. Drops alpha without blending unless options request
// alpha.
void decode_png(std::span<const std::byte> bytes, const DecodeOptions& options,
                unsigned char* pixels);
// `level` is the compression level, 0 (fastest) to 9 (smallest).
std::vector<std::byte> encode_png(const PixelBlock& image, int level);

}  // namespace mxlite::io
