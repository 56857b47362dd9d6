// NVRTC, NVIDIA's run-time compiler of CUDA C++. The library is loaded when the first source is
// compiled, so that programs run without it. Compiling needs neither a GPU nor a driver.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mxlite::rtc {

struct SourceProgram {
  std::string source;
  std::vector<std::string> options;      // options of nvcc, without the architecture
  std::vector<std::string> expressions;  // C++ names of kernels, such as "scale<float>"
};

struct CompiledCode {
  std::vector<std::byte> image;              // cubin, or PTX with its final zero
  std::map<std::string, std::string> names;  // symbols in the image by expression
};

class Nvrtc {
 public:
  // Loads libnvrtc.so.13, or the file that MXLITE_NVRTC_LIBRARY names, once. Returns null and the
  // reason on failure.
  static const Nvrtc* get(std::string* why_not);
  // Loads a library given by path or name.
  static std::unique_ptr<const Nvrtc> load(const std::string& library, std::string* why_not);

  const std::string& version() const { return version_; }  // "13.0"
  // Compiles for the GPUs of an architecture such as "9.0". If this NVRTC does not support it, the
  // result is PTX for the newest earlier architecture, which the driver translates. An option
  // --gpu-architecture (or -arch) takes precedence. Throws a value error with the compiler's
  // messages if the source is invalid.
  CompiledCode compile(const SourceProgram& program, const std::string& architecture) const;
  ~Nvrtc();

 private:
  struct Functions;
  Nvrtc();
  std::string architecture_option(const std::string& architecture) const;

  std::unique_ptr<Functions> functions_;
  std::string version_;
  std::string include_folder_;  // folder of CUDA's headers; empty if not found
};

}  // namespace mxlite::rtc
