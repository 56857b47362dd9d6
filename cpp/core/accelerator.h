// The interface of the accelerator plug-in. libmxlite_cuda.so, beside this library, drives the GPUs
// and is loaded on first use; the functions below also work without it or without a driver.
#pragma once
#include <string>

#include "cpp/core/allocator.h"
#include "cpp/core/device.h"
#include "cpp/core/stream.h"

namespace mxlite {

struct AcceleratorInfo {
  std::string name;          // "NVIDIA H100"
  std::string architecture;  // "9.0"
  int multiprocessors = 0;
};

struct DeviceMemory {
  size_t free = 0, total = 0;  // bytes, counting all processes
};

// There is one per process; every function may be called by any thread.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual int count() const = 0;
  virtual AcceleratorInfo info(int device) const = 0;
  // Throws a device error if there is no such device, or no kernel was compiled for it.
  virtual void check_usable(int device) = 0;

  // Allocates memory that `first_user` may use at once; others wait for it (engine::Var).
  // Throws kOutOfMemory with asked, in use, cached and limit after one retry without cache.
  virtual Block allocate(int device, size_t bytes, StreamKind first_user) = 0;
  // Frees a block in the order of `stream`. The block's allocation and all work that uses it must
  // come earlier in the order of this stream, or be done.
  virtual void free(int device, Block block, StreamKind stream) noexcept = 0;
  virtual void release_cached(int device) = 0;
  virtual MemoryStats stats(int device) const = 0;
  virtual DeviceMemory memory(int device) = 0;
  // Allocates page-locked host memory; copies from it overlap with work of the host.
  virtual Allocator& pinned() = 0;

  virtual Stream& stream(int device, StreamKind kind) = 0;
  // Blocks until no work runs on the device.
  virtual void synchronize(int device) = 0;
};

// Returns null if there is none; accelerator_absence() then gives the reason.
Accelerator* accelerator();
// Returns the accelerator if something has asked for it before; loads nothing.
Accelerator* accelerator_in_use();
// Returns "this build has MXLITE_CUDA=OFF", "no NVIDIA driver ..."; empty if there is a plug-in.
const std::string& accelerator_absence();
// Throws a device error "<who>: gpu(3) asked for, ..." if that GPU cannot be used.
Accelerator& require_accelerator(const char* who, int gpu);

// The one function of a plug-in that is called by name, mxlite_plugin_load: registers kernels and
// returns the accelerator, or null and why not. Never throws.
using PluginLoadFn = Accelerator* (*)(std::string* why_not);

}  // namespace mxlite
