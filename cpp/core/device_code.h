// Kernels that were compiled while the program runs: machine code is loaded onto a device, and its
// kernels are launched by name. The accelerator plug-in does both.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "cpp/core/stream.h"

namespace mxlite {

struct LaunchGrid {
  std::array<unsigned, 3> blocks{1, 1, 1};
  std::array<unsigned, 3> threads{1, 1, 1};  // in each block
  unsigned shared_bytes = 0;                 // dynamic shared memory of each block
};

// The value of one kernel parameter. Launches read it before they return.
struct KernelArgument {
  const void* value = nullptr;
  size_t bytes = 0;
};

class CodeLoader {
 public:
  // A loaded image, and a kernel in it; both belong to one device.
  using Module = void*;
  using Function = void*;

  virtual ~CodeLoader() = default;
  // `image` is a cubin, or PTX that ends with a zero. It stays loaded until the process ends.
  // Throws a device error that says what the driver reports.
  virtual Module load(int device, std::span<const std::byte> image) = 0;
  // Returns null if the image has no kernel of that name.
  virtual Function find(int device, Module module, const std::string& kernel) = 0;
  // Submits a launch to the stream, which belongs to the function's device.
  virtual void launch(Stream* stream, Function function, const LaunchGrid& grid,
                      std::span<const KernelArgument> arguments) = 0;
};

// The plug-in calls this once, while it is loaded. The loader is never destroyed.
void set_code_loader(CodeLoader* loader);
CodeLoader* code_loader();  // null without a plug-in

}  // namespace mxlite
