#include "cpp/io/encode.h"

#include <cstdlib>

#include "cpp/io/jpeg_errors.h"
#include "cpp/io/png_codec.h"

namespace mxlite::io {
namespace {

struct Compressor {
  jpeg_compress_struct info{};
  JpegErrorTrap trap{};
  unsigned char* output = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type

  Compressor() {
    info.err = jpeg_std_error(&trap.manager);
    trap.manager.error_exit = leave_jpeg;
  }
  ~Compressor() {
    jpeg_destroy_compress(&info);
    std::free(output);
  }
  Compressor& operator=(Compressor&&) = delete;  // neither copied nor moved
};

J_COLOR_SPACE color_space(ColorOrder order) {
  switch (order) {
    case ColorOrder::kGray:
      return JCS_GRAYSCALE;
    case ColorOrder::kRGB:
      return JCS_RGB;
    case ColorOrder::kBGR:
      return JCS_EXT_BGR;
    case ColorOrder::kRGBA:
      return JCS_EXT_RGBX;
    case ColorOrder::kBGRA:
      return JCS_EXT_BGRX;
  }
  return JCS_RGB;
}

// longjmp skips destructors, so no object with a destructor may be created after setjmp.
bool compress(Compressor& jpeg, const PixelBlock& image, int quality) {
  if (setjmp(jpeg.trap.exit) != 0) return false;
  jpeg_compress_struct& info = jpeg.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &jpeg.output, &jpeg.size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = num_channels(image.order);
  info.in_color_space = color_space(image.order);
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  jpeg_start_compress(&info, TRUE);
  const int64_t stride = static_cast<int64_t>(image.width) * info.input_components;
  while (info.next_scanline < info.image_height) {
    constexpr JDIMENSION kBlock = 16;
    JSAMPROW rows[kBlock];
    JDIMENSION count = 0;
    for (; count < kBlock && info.next_scanline + count < info.image_height; ++count)
      rows[count] = const_cast<JSAMPROW>(image.data + (info.next_scanline + count) * stride);
    jpeg_write_scanlines(&info, rows, count);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

std::vector<std::byte> encode_image(const PixelBlock& image, ImageFormat format, int quality) {
  MX_CHECK_SHAPE(image.height > 0 && image.width > 0 && image.height < 65536 && image.width < 65536,
                 "imencode: each side of the image must have 1 to 65535 pixels, got ", image.height,
                 " x ", image.width);
  if (format == ImageFormat::kPng) return encode_png(image, quality);
  MX_CHECK(quality >= 1 && quality <= 100, "imencode: quality must be in [1, 100], got ", quality);
  Compressor jpeg;
  MX_CHECK_KIND(compress(jpeg, image, quality), ErrorKind::kError,
                "imencode: ", std::string(jpeg.trap.message));
  const auto* begin = reinterpret_cast<const std::byte*>(jpeg.output);
  return {begin, begin + jpeg.size};
}

}  // namespace mxlite::io
