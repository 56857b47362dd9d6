// JPEG and PNG images: header, Exif tag, whole picture, part of it; the first byte chooses how.
#include <algorithm>
#include <vector>

#include "cpp/io/decode.h"
#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return ::setenv("MXLITE_MAX_IMAGE_PIXELS", "250000", 1);
}

namespace {

uint32_t number_at(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// Writes the right checksum behind each chunk of a PNG image: a changed chunk would else be refused
// before its content is read.
void repair_checksums(std::span<uint8_t> image) {
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (image.size() < 8 || !std::ranges::equal(image.first(8), kPng)) return;
  image = image.subspan(8);
  while (image.size() >= 12 && number_at(image.data()) <= image.size() - 12) {
    const size_t content = number_at(image.data());
    const uint32_t crc = crc32(image.subspan(4, content + 4));
    for (size_t i = 0; i < 4; ++i)
      image[content + 8 + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    image = image.subspan(content + 12);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  const size_t changed = LLVMFuzzerMutate(data, size, max_size);
  if (changed > 1 && seed % 8 != 0) repair_checksums({data + 1, changed - 1});
  return changed;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const int choice = data[0];
  // A copy of exact size, so that the address sanitizer knows its end.
  const std::vector<uint8_t> copy(data + 1, data + size);
  const auto bytes = std::as_bytes(std::span(copy));
  io::DecodeOptions options;
  options.order = static_cast<io::ColorOrder>(choice % 5);
  options.name = "fuzz";
  const int orientation = io::exif_orientation(bytes);
  fuzz::require(orientation >= 1 && orientation <= 8, "an orientation is 1 to 8");
  fuzz::expect(
      [&] {
        const io::ImageInfo info = io::read_image_header(bytes, "fuzz");
        if (info.jpeg) options.denominator = 1 << (choice / 5 % 4);
        const int height = io::scaled_side(info.height, options.denominator);
        const int width = io::scaled_side(info.width, options.denominator);
        std::vector<unsigned char> pixels(static_cast<size_t>(height) * static_cast<size_t>(width) *
                                          static_cast<size_t>(io::num_channels(options.order)));
        io::Window window;
        if (choice & 128) {
          io::decode_window(bytes, options, {width / 3, height / 3, (width + 2) / 3, 1}, window);
        } else {
          io::decode_image_into(bytes, options, pixels.data());
        }
      },
      {ErrorKind::kRecord});
  return 0;
}
