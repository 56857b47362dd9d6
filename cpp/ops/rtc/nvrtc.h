// NVRTC, NVIDIA's compiler of CUDA C++ at run time. It is loaded when the first source is compiled,
// so that programs run without it; it needs neither a GPU nor a driver.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mxlite::rtc {

struct SourceProgram {
  std::string source;
  std::vector<std::string> options;      // as for nvcc, without the architecture
  std::vector<std::string> expressions;  // C++ names of kernels, such as "scale<float>"
};

struct CompiledCode {
  std::vector<std::byte> image;              // cubin, or PTX with its final zero
  std::map<std::string, std::string> names;  // symbols in the image by expression
};

class Nvrtc {
 public:
  // Loads libnvrtc.so.13, or the file that MXLITE_NVRTC_LIBRARY names, once. Returns null and the
  // reason if there is none.
  static const Nvrtc* get(std::string* why_not);
  // Loads the library of that path or name.
  static std::unique_ptr<const Nvrtc> load(const std::string& library, std::string* why_not);

  const std::string& version() const { return version_; }  // "13.0"
  // Compiles for the GPUs of an architecture such as "9.0". Where this NVRTC does not know it, the
  // result is PTX for the newest earlier one, which the driver translates. An option
  // --gpu-architecture (or -arch) decides instead. Throws a value error with the compiler's
  // messages if the source is wrong.
  CompiledCode compile(const SourceProgram& program, const std::string& architecture) const;
  ~Nvrtc();

 private:
  struct Functions;
  Nvrtc();
  std::string architecture_option(const std::string& architecture) const;

  std::unique_ptr<Functions> functions_;
  std::string version_;
  std::string include_folder_;  // CUDA's headers beside the library; empty: none
};

}  // namespace mxlite::rtc
