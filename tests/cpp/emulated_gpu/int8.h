// int8 convolutions of cuDNN, on the CPU.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

// Returns false and runs nothing for three dimensions, as if cuDNN had no plan.
bool run_int8_convolution(const ConvolutionProblem& p, const ConvolutionOperands& o);

}  // namespace mxlite::cuda
