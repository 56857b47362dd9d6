// Loads images of the fake NVRTC into the process and runs their kernels in the emulator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/device_code.h"

namespace mxlite::test {

CodeLoader::Module load_host_code(std::span<const std::byte> image);
CodeLoader::Function find_host_kernel(CodeLoader::Module module, const std::string& kernel);

// A launch whose arguments have been copied and compared with the kernel's parameters.
class HostLaunch {
 public:
  HostLaunch(CodeLoader::Function function, const LaunchGrid& grid,
             std::span<const KernelArgument> arguments);
  void run() const;

 private:
  CodeLoader::Function function_;
  LaunchGrid grid_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<size_t> bytes_;
};

}  // namespace mxlite::test
