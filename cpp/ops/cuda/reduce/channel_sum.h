// Sums over all axes but one: gradients of biases.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

void channel_sum(KernelContext& ctx, const TensorRef& in, int axis, const TensorRef& out);

}  // namespace mxlite::cuda
