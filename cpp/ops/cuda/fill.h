// Fills arrays with one value.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/number.h"

namespace mxlite::cuda {

// Sets every element of a contiguous array or of a strided region to a value of the dtype.
void fill_value(KernelContext& ctx, const TensorRef& out, Number value);

}  // namespace mxlite::cuda
