// Sums over an output in the compute type.
#pragma once
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {

// Calls fn with a zeroed array of out's shape, to which fn adds. The array is out's memory or, for
// float16 and bfloat16, float32 scratch memory that is afterwards converted to out.
void with_sums(KernelContext& ctx, const TensorRef& out, auto&& fn) {
  dispatch_float_compute(out.dtype, [&]<class C>(C) {
    TensorRef sums = out;
    sums.dtype = DTypeOf<C>::value;
    if (sums.dtype != out.dtype) sums.data = ctx.scratch(sums.bytes());
    zero_bytes(ctx, sums.data, sums.bytes());
    fn(sums.as<C>());
    if (sums.dtype != out.dtype) convert_copy(ctx, sums, out);
  });
}

}  // namespace mxlite::cuda
