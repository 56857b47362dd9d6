// nvJPEG, NVIDIA's JPEG decoder. It is loaded when it is first asked for, so that programs run
// without it.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mxlite::io {

namespace nvjpeg {
struct Functions;
}

class Nvjpeg {
 public:
  // Loads libnvjpeg.so.13, or the file that MXLITE_NVJPEG_LIBRARY names, once. Returns null and
  // the reason, with what to install, if there is none.
  static const Nvjpeg* get(std::string* why_not);
  // Loads the library of that path or name.
  static std::unique_ptr<const Nvjpeg> load(const std::string& library, std::string* why_not);
  ~Nvjpeg();

  const std::string& version() const { return version_; }  // "13.3.2"

 private:
  friend class NvjpegDecoder;
  Nvjpeg();

  std::unique_ptr<nvjpeg::Functions> functions_;
  std::string version_;
};

// Decodes one image after the other on the device that is current when it is made. Used by one
// thread at a time, which has made the device current. Failures of the device or of the library are
// thrown as device errors.
class NvjpegDecoder {
 public:
  explicit NvjpegDecoder(const Nvjpeg& library);
  ~NvjpegDecoder();
  NvjpegDecoder(const NvjpegDecoder&) = delete;
  NvjpegDecoder& operator=(const NvjpegDecoder&) = delete;

  // Does the host's part for an image: `gray` asks for its luminance only, else RGB. The work that
  // the image before was given by submit() must be done. Returns why nvJPEG does not decode this
  // image, or nothing.
  std::optional<std::string> begin(std::span<const std::byte> bytes, bool gray);
  // Submits the device's part to the driver's stream; rows of `pixels` are `pitch` bytes apart.
  // Returns why nvJPEG does not decode this image, or nothing.
  std::optional<std::string> submit(unsigned char* pixels, size_t pitch, void* stream);

 private:
  struct Objects;
  std::unique_ptr<Objects> objects_;
};

}  // namespace mxlite::io
