// Prefix sums for kernels of other operators.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

// sums[i] = the sum of the elements of i's row up to and including i. `rows` is at least 1 and
// divides the size.
void running_sums(KernelContext& ctx, const TensorRef& data, int64_t rows, double* sums);

}  // namespace mxlite::cuda
