// Convolutions as plain loops for cases that cuDNN does not support: float64, integers, and
// problems for which it has no plan. Slow.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

void direct_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                        const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
