// Kernels for 16-bit floats on processors without instructions for these types. A kernel computes
// float32 copies of the arrays and rounds the results once.
#pragma once
#include "cpp/core/allocator.h"
#include "cpp/ops/cpu/onednn/eager.h"

namespace mxlite::onednn {

using SpecList = SmallVector<TensorSpec, 4>;
SpecList as_float32(SpecSpan specs);

// Returns why a call cannot be computed on copies, or null if it can.
const char* check_float_copies(SpecSpan in, SpecSpan out);

// Float32 copies of a call's arrays.
class FloatCopies {
 public:
  FloatCopies(Inputs in, Outputs out);
  ~FloatCopies() { cpu_allocator().free(block_); }
  FloatCopies& operator=(FloatCopies&&) = delete;  // neither copied nor moved

  Inputs inputs() const { return {refs_.data(), inputs_}; }
  Outputs outputs() const { return {refs_.data() + inputs_, refs_.size() - inputs_}; }
  // Rounds the outputs and stores them in the call's arrays.
  void store(Outputs out) const;

 private:
  const size_t inputs_;
  SmallVector<TensorRef, 4> refs_;
  Block block_;
};

template <class P, PrimitiveCallRef (*Prepare)(const P&, SpecSpan, SpecSpan)>
const char* supports_on_copies(const P& p, SpecSpan in, SpecSpan out) {
  if (const char* reason = check_float_copies(in, out)) return reason;
  return Prepare(p, as_float32(in), as_float32(out)) ? nullptr : kNoImplementation;
}

template <class P, auto Run>
void run_on_copies(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const FloatCopies copies(in, out);
  Run(ctx, p, copies.inputs(), copies.outputs());
  copies.store(out);
}

// Like add_kernel, but also registers a kernel for 16-bit floats that oneDNN cannot compute in.
template <class P, PrimitiveCallRef (*Prepare)(const P&, SpecSpan, SpecSpan), auto Run>
void add_kernel_for_halves(OpRegistry& ops, const char* op) {
  add_kernel<P, Prepare, Run>(ops, op);
  Kernel k;
  k.name = "onednn in float32";
  k.supports = supports_if<&supports_on_copies<P, Prepare>>();
  k.inline_ok = false;
  ops.cpu_kernel<cpu::flushing<&run_on_copies<P, Run>>>(op, k);
}

}  // namespace mxlite::onednn
