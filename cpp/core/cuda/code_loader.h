// Uses the driver to load and launch kernels that were compiled at run time.
#pragma once
#include "cpp/core/device_code.h"

namespace mxlite::cuda {

class CudaCodeLoader final : public CodeLoader {
 public:
  Module load(int device, std::span<const std::byte> image) override;
  Function find(int device, Module module, const std::string& kernel) override;
  void launch(Stream* stream, Function function, const LaunchGrid& grid,
              std::span<const KernelArgument> arguments) override;
};

}  // namespace mxlite::cuda
