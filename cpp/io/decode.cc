#include "cpp/io/decode.h"

#include <cstring>

#include "cpp/base/byte_reader.h"
#include "cpp/base/env.h"
#include "cpp/io/jpeg_decoder.h"
#include "cpp/io/png_codec.h"

namespace mxlite::io {
namespace {

unsigned char at(std::span<const std::byte> bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// Returns a TIFF integer of 2 or 4 bytes, or 0 beyond the end.
uint32_t tiff_word(std::span<const std::byte> tiff, size_t offset, size_t size, bool little) {
  return number_at(tiff, offset, size, little).value_or(0);
}

int tiff_orientation(std::span<const std::byte> tiff) {
  constexpr uint32_t kOrientationTag = 0x0112;
  if (tiff.size() < 8) return 1;
  const bool little = at(tiff, 0) == 'I';
  const size_t directory = tiff_word(tiff, 4, 4, little);
  const uint32_t entries = tiff_word(tiff, directory, 2, little);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (entry + 12 > tiff.size()) break;
    if (tiff_word(tiff, entry, 2, little) != kOrientationTag) continue;
    const uint32_t value = tiff_word(tiff, entry + 8, 2, little);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

// The default limit is the limit of Pillow: 256 MiB of RGB pixels.
void check_pixel_count(int64_t height, int64_t width, const std::string& name) {
  static const int64_t most = env_int("MXLITE_MAX_IMAGE_PIXELS", 89478485);
  MX_CHECK_KIND(height > 0 && width > 0 && width <= most / height, ErrorKind::kRecord, name,
                ": the image must have 1 to ", most, " pixels (MXLITE_MAX_IMAGE_PIXELS), got ",
                height, " x ", width);
}

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() > 3 && at(bytes, 0) == 0xFF && at(bytes, 1) == 0xD8;
}

bool is_png(std::span<const std::byte> bytes) {
  static constexpr unsigned char kSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  return bytes.size() >= 8 && std::memcmp(bytes.data(), kSignature, 8) == 0;
}

ImageInfo read_image_header(std::span<const std::byte> bytes, const std::string& name) {
  MX_CHECK_KIND(!bytes.empty(), ErrorKind::kRecord, name,
                ": the image must have at least 1 byte, got 0");
  return is_png(bytes) ? read_png_header(bytes, name) : read_jpeg_header(bytes, name);
}

// Searches for the first APP1 segment that begins with "Exif". The content of this segment is a
// TIFF file.
int exif_orientation(std::span<const std::byte> bytes) {
  if (!is_jpeg(bytes)) return 1;
  for (size_t i = 2; i + 4 <= bytes.size() && at(bytes, i) == 0xFF;) {
    const unsigned char marker = at(bytes, i + 1);
    if (marker == 0xFF) {  // fill byte
      ++i;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;
    const size_t length = size_t{at(bytes, i + 2)} << 8 | at(bytes, i + 3);
    if (length < 2 || i + 2 + length > bytes.size()) break;
    const std::span<const std::byte> segment = bytes.subspan(i + 4, length - 2);
    if (marker == 0xE1 && segment.size() > 6 && std::memcmp(segment.data(), "Exif\0\0", 6) == 0)
      return tiff_orientation(segment.subspan(6));
    i += 2 + length;
  }
  return 1;
}

void decode_image_into(std::span<const std::byte> bytes, const DecodeOptions& options,
                       unsigned char* pixels) {
  if (is_png(bytes)) {
    MX_ASSERT(options.denominator == 1);
    decode_png(bytes, options, pixels);
  } else {
    decode_jpeg(bytes, options, pixels);
  }
}

NDArrayRef decode_image(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const ImageInfo info = read_image_header(bytes, options.name);
  const int d = options.denominator;
  MX_CHECK((info.jpeg && (d == 2 || d == 4 || d == 8)) || d == 1, options.name,
           ": denominator must be 1", info.jpeg ? ", 2, 4 or 8" : " for PNG", ", got ", d);
  NDArrayRef image = NDArray::empty(
      {{scaled_side(info.height, d), scaled_side(info.width, d), num_channels(options.order)},
       DType::kUInt8},
      Device{});
  decode_image_into(bytes, options, static_cast<unsigned char*>(image->data()));
  return image;
}

void decode_window(std::span<const std::byte> bytes, const DecodeOptions& options,
                   const Region& needed, Window& window) {
  if (!is_png(bytes)) return decode_jpeg(bytes, options, needed, window);
  const ImageInfo info = read_png_header(bytes, options.name);
  window.area = {0, 0, info.width, info.height};
  window.stride = static_cast<int64_t>(info.width) * num_channels(options.order);
  const auto size = static_cast<size_t>(window.stride * info.height + 16);
  if (window.memory.size() < size) window.memory.resize(size);
  decode_png(bytes, options, window.memory.data());
  window.data = window.memory.data();
}

}  // namespace mxlite::io
