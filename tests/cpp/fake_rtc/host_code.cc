#include "tests/cpp/fake_rtc/host_code.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cpp/base/error.h"

namespace mxlite::test {
namespace {

using LaunchFn = int (*)(const unsigned* grid, const unsigned* block, size_t shared, void** values,
                         const size_t* bytes, size_t count);

}  // namespace

CodeLoader::Module load_host_code(std::span<const std::byte> image) {
  std::string path = (std::filesystem::temp_directory_path() / "host_code.XXXXXX").string();
  const int file = mkstemp(path.data());
  MX_ASSERT(file >= 0);
  MX_ASSERT(write(file, image.data(), image.size()) == static_cast<ssize_t>(image.size()));
  close(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const error = library ? nullptr : dlerror();
  unlink(path.c_str());
  MX_CHECK_KIND(library, ErrorKind::kDevice, "cuModuleLoadData of the stand-in: ", error);
  return library;
}

CodeLoader::Function find_host_kernel(CodeLoader::Module module, const std::string& kernel) {
  return dlsym(module, ("fake_rtc_launch_" + kernel).c_str());
}

HostLaunch::HostLaunch(CodeLoader::Function function, const LaunchGrid& grid,
                       std::span<const KernelArgument> arguments)
    : function_(function), grid_(grid) {
  for (const KernelArgument& a : arguments) {
    const auto* const begin = static_cast<const std::byte*>(a.value);
    values_.emplace_back(begin, begin + a.bytes);
    bytes_.push_back(a.bytes);
  }
  const int status = reinterpret_cast<LaunchFn>(function_)(nullptr, nullptr, 0, nullptr,
                                                           bytes_.data(), bytes_.size());
  MX_CHECK_KIND(status == 0, ErrorKind::kDevice,
                "cuLaunchKernel of the stand-in: the kernel has other parameters");
}

void HostLaunch::run() const {
  std::vector<void*> values;
  for (const auto& v : values_) values.push_back(const_cast<std::byte*>(v.data()));
  reinterpret_cast<LaunchFn>(function_)(grid_.blocks.data(), grid_.threads.data(),
                                        grid_.shared_bytes, values.data(), bytes_.data(),
                                        bytes_.size());
}

}  // namespace mxlite::test
