// Convolutions as plain sums, for what cuDNN does not have: float64 and integers, and problems for
// which it finds no plan. Slow.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

void direct_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                        const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
