// Decodes JPEG with libjpeg-turbo. Other files include decode.h instead of this header.
#pragma once
#include "cpp/io/decode.h"

namespace mxlite::io {

ImageInfo read_jpeg_header(std::span<const std::byte> bytes, const std::string& name);
// These functions implement decode_window and decode_image_into of decode.h.
void decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                 const Region& needed, Window& window);
void decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                 unsigned char* pixels);

}  // namespace mxlite::io
