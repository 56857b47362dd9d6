// Convolutions as plain sums, for types that cuDNN does not have: float64 and integers.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

void direct_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                        const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
