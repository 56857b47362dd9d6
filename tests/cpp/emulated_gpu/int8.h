// int8 convolutions of cuDNN, on the CPU.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

// Returns false, and nothing runs, for three dimensions, as where cuDNN has no plan.
bool run_int8_convolution(const ConvolutionProblem& p, const ConvolutionOperands& o);

}  // namespace mxlite::cuda
