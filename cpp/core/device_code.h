// Loads machine code that was compiled at run time onto a device, and launches its kernels by name.
// The accelerator plug-in implements the functions.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "cpp/core/stream.h"

namespace mxlite {

struct LaunchGrid {
  std::array<unsigned, 3> blocks{1, 1, 1};
  std::array<unsigned, 3> threads{1, 1, 1};  // threads of each block
  unsigned shared_bytes = 0;                 // bytes of dynamic shared memory of each block
};

// The value of one kernel parameter. A launch reads the value before it returns.
struct KernelArgument {
  const void* value = nullptr;
  size_t bytes = 0;
};

class CodeLoader {
 public:
  // A loaded image and a kernel in it. Both belong to one device.
  using Module = void*;
  using Function = void*;

  virtual ~CodeLoader() = default;
  // Loads `image`, a cubin or zero-terminated PTX. The module stays loaded until the process ends.
  // Throws a device error with the driver's message.
  virtual Module load(int device, std::span<const std::byte> image) = 0;
  // Returns the kernel, or null if the image has no kernel of that name.
  virtual Function find(int device, Module module, const std::string& kernel) = 0;
  // Submits a launch to the stream, which belongs to the function's device.
  virtual void launch(Stream* stream, Function function, const LaunchGrid& grid,
                      std::span<const KernelArgument> arguments) = 0;
};

// Called by the plug-in once, while it is loaded. The loader is never destroyed.
void set_code_loader(CodeLoader* loader);
CodeLoader* code_loader();  // returns null without a plug-in

}  // namespace mxlite
