// Arguments of a kernel, and the table entry that offers it. Candidates of an operator are tried in
// the order of registration (registration.h); the first whose `supports` has no objection runs.
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
  RandomState random;  // this call's own counters; only for ops with .random()
  // Stream to which a device kernel submits its work; null for CPU kernels.
  Stream* stream = nullptr;
  // Device memory with what is to be added to `random`: in a captured graph only the memory's
  // content changes from run to run. Null: nothing.
  const RandomState* device_random = nullptr;

  // Uninitialised memory of the kernel's device, aligned to 64 bytes (CPU) or 256 (GPU), valid
  // until the kernel returns (GPU: for the work that it has submitted to the stream). One block per
  // thread or stream, grown as needed: a second call in one kernel invalidates the first.
  void* scratch(size_t bytes);
};

using KernelFn = void (*)(KernelContext&, const void* params, Inputs, Outputs);
// nullptr: the kernel takes this call. Otherwise the reason why not (MXLITE_VERBOSE=dispatch).
using SupportsFn = const char* (*)(const void* params, std::span<const TensorSpec> inputs,
                                   std::span<const TensorSpec> outputs);

struct Kernel {
  const char* name = "native";
  SupportsFn supports = nullptr;  // nullptr: everything that passed the op's shape rule
  KernelFn run = nullptr;         // filled by OpRegistry::kernel
  // Takes inputs with any strides; otherwise the caller makes them contiguous first.
  bool strided_inputs = false;
  // Opens no parallel region for small sizes, so that it may run in the caller's thread.
  bool inline_ok = true;
  // Runs even where the outputs have no elements: other processes wait for the call.
  bool runs_when_empty = false;
};

// Erase<&kernel>::call drops the parameter type of void kernel(KernelContext&, const P&, Inputs,
// Outputs), EraseSupports that of const char* fn(const P&, specs, specs). Two templates: nvcc takes
// specialisations of one for the same.
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
