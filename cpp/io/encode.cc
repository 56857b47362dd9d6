#include "cpp/io/encode.h"

#include <turbojpeg.h>

#include <memory>

namespace mxlite::io {
namespace {

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
struct FreeBuffer {
  void operator()(unsigned char* buffer) const { tjFree(buffer); }
};

int pixel_format(ColorOrder order) {
  switch (order) {
    case ColorOrder::kGray:
      return TJPF_GRAY;
    case ColorOrder::kRGB:
      return TJPF_RGB;
    case ColorOrder::kBGR:
      return TJPF_BGR;
  }
  return TJPF_RGB;
}

}  // namespace

std::vector<std::byte> encode_jpeg(const PixelBlock& image, int quality) {
  MX_CHECK(quality >= 1 && quality <= 100, "imencode: quality ", quality,
           " given, 1 to 100 expected");
  MX_CHECK_SHAPE(image.height > 0 && image.width > 0 && image.height < 65536 && image.width < 65536,
                 "imencode: an image of ", image.height, " x ", image.width,
                 " given, 1 to 65535 pixels a side expected");
  thread_local const std::unique_ptr<void, DestroyHandle> handle(tjInitCompress());
  MX_CHECK_KIND(handle, ErrorKind::kOutOfMemory, "imencode: libjpeg-turbo could not be set up");
  const bool gray = image.order == ColorOrder::kGray;
  unsigned char* output = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type
  const int status =
      tjCompress2(handle.get(), image.data, image.width, 0, image.height, pixel_format(image.order),
                  &output, &size, gray ? TJSAMP_GRAY : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, FreeBuffer> owner(output);
  MX_CHECK_KIND(status == 0, ErrorKind::kError,
                "imencode: ", std::string(tjGetErrorStr2(handle.get())));
  const auto* begin = reinterpret_cast<const std::byte*>(output);
  return {begin, begin + size};
}

}  // namespace mxlite::io
