// Compute-bound kernels flush subnormal numbers to 0, like TensorFlow and XLA on CPUs, because
// vanishing gradients would otherwise make products and convolutions tens of times slower.
// Element-wise operators, reductions and copies keep subnormal numbers.
#pragma once
#include "cpp/core/subnormals.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

template <auto Fn>
struct Flushing;
template <class P, void (*Fn)(KernelContext&, const P&, Inputs, Outputs)>
struct Flushing<Fn> {
  static void run(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
    const FlushSubnormals flush;
    Fn(ctx, p, in, out);
  }
};
// ops.cpu_kernel<flushing<kernel>>(...) registers `kernel` so that it flushes subnormal numbers,
// also in the threads of its parallel regions (cpp/core/openmp.cc).
template <auto Fn>
constexpr auto flushing = &Flushing<Fn>::run;

}  // namespace mxlite::cpu
