#include "cpp/io/decode.h"

#include <turbojpeg.h>

#include <memory>

namespace mxlite::io {
namespace {

struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, DestroyHandle>;

// One decompressor per thread: creating it costs as much as a small image.
Handle& thread_handle() {
  thread_local Handle handle;
  if (!handle) handle.reset(tjInitDecompress());
  MX_CHECK_KIND(handle, ErrorKind::kOutOfMemory, "imdecode: libjpeg-turbo could not be set up");
  return handle;
}

[[noreturn]] void fail_decode(const std::string& name, Handle& handle, size_t bytes) {
  const std::string reason = tjGetErrorStr2(handle.get());
  handle.reset();  // it keeps a damaged file's tables, which would spoil the next image
  fail(ErrorKind::kRecord, name, ": ", bytes, " bytes are not a readable JPEG image: ", reason);
}

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

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

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() > 3 && raw(bytes)[0] == 0xFF && raw(bytes)[1] == 0xD8;
}

JpegInfo read_jpeg_header(std::span<const std::byte> bytes, const std::string& name) {
  MX_CHECK_KIND(!bytes.empty(), ErrorKind::kRecord, name,
                ": no bytes given, a JPEG image expected");
  Handle& handle = thread_handle();
  JpegInfo info;
  int subsampling = 0, colorspace = 0;
  if (tjDecompressHeader3(handle.get(), raw(bytes), bytes.size(), &info.width, &info.height,
                          &subsampling, &colorspace) != 0)
    fail_decode(name, handle, bytes.size());
  info.gray = colorspace == TJCS_GRAY;
  return info;
}

namespace {

int64_t scaled(int side, int denominator) { return (side + denominator - 1) / denominator; }

}  // namespace

void decode_jpeg_into(std::span<const std::byte> bytes, const DecodeOptions& options,
                      unsigned char* pixels) {
  const JpegInfo info = read_jpeg_header(bytes, options.name);
  const auto width = static_cast<int>(scaled(info.width, options.denominator));
  const auto height = static_cast<int>(scaled(info.height, options.denominator));
  Handle& handle = thread_handle();
  // TJFLAG_STOPONWARNING: a truncated file is an error and not a half gray picture.
  if (tjDecompress2(handle.get(), raw(bytes), bytes.size(), pixels, width, 0, height,
                    pixel_format(options.order), TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING) != 0)
    fail_decode(options.name, handle, bytes.size());
}

NDArrayRef decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const JpegInfo info = read_jpeg_header(bytes, options.name);
  const int d = options.denominator;
  MX_CHECK(d == 1 || d == 2 || d == 4 || d == 8, options.name, ": denominator ", d,
           " given, 1, 2, 4 or 8 expected");
  const int64_t channels = options.order == ColorOrder::kGray ? 1 : 3;
  NDArrayRef image = NDArray::empty(
      {{scaled(info.height, d), scaled(info.width, d), channels}, DType::kUInt8}, Device{});
  decode_jpeg_into(bytes, options, static_cast<unsigned char*>(image->data()));
  return image;
}

}  // namespace mxlite::io
