// Code shared by the eager kernels. Each has a function `prepare(params, inputs, outputs)` that
// returns the cached call, or null for cases that oneDNN does not support; `supports` then selects
// the native kernel.
#pragma once
#include <memory>
#include <span>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/cpu/onednn/primitive_cache.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::onednn {

using SpecSpan = std::span<const TensorSpec>;
using PrimitiveCallRef = std::shared_ptr<const PrimitiveCall>;  // null if oneDNN does not support
                                                                // the case

constexpr const char* kNoImplementation = "oneDNN has no fast implementation for this case";

inline SmallVector<TensorSpec, 4> specs_of(std::span<const TensorRef> refs) {
  SmallVector<TensorSpec, 4> specs;
  for (const TensorRef& r : refs) specs.push_back({r.shape, r.dtype});
  return specs;
}

// Returns why oneDNN cannot run the call, or null if it can.
const char* check_common(SpecSpan inputs, SpecSpan outputs);

template <class P, PrimitiveCallRef (*Prepare)(const P&, SpecSpan, SpecSpan)>
const char* supports(const P& p, SpecSpan in, SpecSpan out) {
  if (const char* reason = check_common(in, out)) return reason;
  return Prepare(p, in, out) ? nullptr : kNoImplementation;
}

// Like cached(), for calls. `make` returns a PrimitiveCall, which is empty if oneDNN does not
// support the case.
PrimitiveCallRef cached_call(const char* op, const Key& key, auto&& make) {
  auto found = cached(key, [&]() -> PrimitiveCall { return guarded(op, make); });
  return found->primitive() ? found : nullptr;
}

// Registers a kernel at Stage::kLibraryKernels, so that it is tried before the native kernel.
template <class P, PrimitiveCallRef (*Prepare)(const P&, SpecSpan, SpecSpan), auto Run>
void add_kernel(OpRegistry& ops, const char* op) {
  Kernel k;
  k.name = "onednn";
  k.supports = supports_if<&supports<P, Prepare>>();
  k.inline_ok = false;  // oneDNN opens parallel regions
  ops.cpu_kernel<cpu::flushing<Run>>(op, k);
}

}  // namespace mxlite::onednn
