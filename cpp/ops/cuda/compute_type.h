// The type in which kernels compute, chosen on the host by the dtype in memory.
#pragma once
#include "cpp/core/dtype.h"
#include "cpp/ops/cpu/pointwise/block_io.h"

namespace mxlite::cuda {

// Calls fn(C{}) with the compute type: double for float64, float for float32 and 16-bit floats.
void dispatch_float_compute(DType dtype, auto&& fn) {
  if (dtype == DType::kFloat64)
    fn(double{});
  else
    fn(float{});
}

// Calls fn(C{}) with the type of sums of values of this dtype; 64 bits for integers.
void dispatch_sum(DType dtype, auto&& fn) {
  switch (pointwise::compute_for_sum(dtype)) {
    case pointwise::Compute::kFloat:
      return fn(float{});
    case pointwise::Compute::kDouble:
      return fn(double{});
    case pointwise::Compute::kUInt64:
      return fn(uint64_t{});
    default:
      return fn(int64_t{});
  }
}

}  // namespace mxlite::cuda
