// Convolutions as plain, slow loops for cases that cuDNN does not support: float64, integers, and
// problems for which cuDNN has no plan.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

void direct_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                        const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
