// The interface of the accelerator plug-in. libmxlite_cuda.so, in the folder of this library,
// drives the GPUs and is loaded on first use. The functions below also work if the plug-in or the
// driver is missing.
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
  size_t free = 0, total = 0;  // bytes, for all processes together
};

// There is one object per process. Any thread may call every function.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual int count() const = 0;
  virtual AcceleratorInfo info(int device) const = 0;
  // Throws a device error if the device does not exist or this build has no kernels for it.
  virtual void check_usable(int device) = 0;

  // Allocates memory that stream `first_user` may use immediately. Other streams must wait for that
  // stream (engine::Var). If memory is short, drops the cache and retries once. If memory is still
  // short, throws kOutOfMemory with the requested, used and cached bytes and the limit.
  virtual Block allocate(int device, size_t bytes, StreamKind first_user) = 0;
  // Frees a block in the order of `stream`. The block's allocation and all work that uses the block
  // must precede this call in that stream's order or have ended.
  virtual void free(int device, Block block, StreamKind stream) noexcept = 0;
  virtual void release_cached(int device) = 0;
  virtual MemoryStats stats(int device) const = 0;
  virtual DeviceMemory memory(int device) = 0;
  // Returns the allocator of page-locked host memory. Copies from such memory overlap with work of
  // the host.
  virtual Allocator& pinned() = 0;

  virtual Stream& stream(int device, StreamKind kind) = 0;
  // Blocks until no work runs on the device.
  virtual void synchronize(int device) = 0;
};

// Returns the accelerator, or null if no accelerator exists; accelerator_absence() then returns the
// reason.
Accelerator* accelerator();
// Returns the accelerator if it has been loaded, otherwise null. Loads nothing.
Accelerator* accelerator_in_use();
// Returns "this build has MXLITE_CUDA=OFF", "no NVIDIA driver ...", or an empty text if an
// accelerator was loaded.
const std::string& accelerator_absence();
// Returns the accelerator. If the GPU cannot be used, throws a device error that begins with `who`
// and names the GPU.
Accelerator& require_accelerator(const char* who, int gpu);

// Type of mxlite_plugin_load, the only function of a plug-in that is looked up by name. The
// function registers kernels and returns the accelerator, or returns null and sets the reason. It
// never throws.
using PluginLoadFn = Accelerator* (*)(std::string* why_not);

}  // namespace mxlite
