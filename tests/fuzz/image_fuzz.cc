// JPEG and PNG images: header, Exif tag, whole picture, part of it; the first byte chooses how.
#include <vector>

#include "cpp/io/decode.h"
#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return ::setenv("MXLITE_MAX_IMAGE_PIXELS", "250000", 1);
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
