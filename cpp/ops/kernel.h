// Arguments of a kernel, and the kernel's entry in its operator's table. An operator's kernels are
// tried in the order of registration (registration.h); the first that supports the call runs.
#pragma once
#include <span>

#include "cpp/core/device.h"
#include "cpp/core/random.h"
#include "cpp/core/shape.h"
#include "cpp/core/stream.h"

namespace mxlite {

// A raw view of one tensor; another object owns the memory.
struct TensorRef {
  void* data = nullptr;
  Shape shape;
  Strides strides;  // in elements
  DType dtype = DType::kFloat32;
  bool contiguous = true;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t size() const { return shape.size(); }
  size_t bytes() const { return static_cast<size_t>(size()) * dtype_size(dtype); }
};
using Inputs = std::span<const TensorRef>;
using Outputs = std::span<const TensorRef>;

struct KernelContext {
  Device device;
  bool training = false;
  RandomState random;  // counters reserved for this call; only for ops with .random()
  // Stream to which a device kernel submits its work; null for CPU kernels.
  Stream* stream = nullptr;
  // Device memory with an offset to add to `random`, or null. A captured CUDA graph has fixed
  // arguments, so random counters can only change from run to run through this memory.
  const RandomState* device_random = nullptr;

  // Returns uninitialized memory of the kernel's device, aligned to 64 bytes (CPU) or 256 (GPU).
  // The memory is valid until the kernel returns (GPU: until work submitted to the stream has run).
  // Each thread or stream has one block, so a second call in one kernel invalidates the first.
  void* scratch(size_t bytes);
};

using KernelFn = void (*)(KernelContext&, const void* params, Inputs, Outputs);
// Returns nullptr if the kernel supports the call, else the reason (see MXLITE_VERBOSE=dispatch).
using SupportsFn = const char* (*)(const void* params, std::span<const TensorSpec> inputs,
                                   std::span<const TensorSpec> outputs);

struct Kernel {
  const char* name = "native";
  SupportsFn supports = nullptr;  // if nullptr, supports all calls that pass the op's shape rule
  KernelFn run = nullptr;         // set by OpRegistry::kernel
  // Says whether inputs may have any strides; if false, the caller makes them contiguous first.
  bool strided_inputs = false;
  // Says whether small calls may run on the caller's thread; the kernel must then open no parallel
  // region.
  bool inline_ok = true;
  // Says whether the kernel runs even if all outputs are empty, because other processes wait for
  // the call.
  bool runs_when_empty = false;
};
inline constexpr Kernel kStrided{.strided_inputs = true};
inline constexpr Kernel kWorkerOnly{.inline_ok = false};

// Erase<&kernel>::call erases the parameter type P of void kernel(KernelContext&, const P&, Inputs,
// Outputs); EraseSupports does so for const char* fn(const P&, specs, specs). These are two
// templates because nvcc confuses specializations of one template.
template <auto Fn>
struct Erase;
template <class P, void (*Fn)(KernelContext&, const P&, Inputs, Outputs)>
struct Erase<Fn> {
  static void call(KernelContext& ctx, const void* params, Inputs in, Outputs out) {
    Fn(ctx, *static_cast<const P*>(params), in, out);
  }
};
template <auto Fn>
struct EraseSupports;
template <class P,
          const char* (*Fn)(const P&, std::span<const TensorSpec>, std::span<const TensorSpec>)>
struct EraseSupports<Fn> {
  static const char* call(const void* params, std::span<const TensorSpec> in,
                          std::span<const TensorSpec> out) {
    return Fn(*static_cast<const P*>(params), in, out);
  }
};
template <auto Fn>
constexpr SupportsFn supports_if() {
  return &EraseSupports<Fn>::call;
}

}  // namespace mxlite
