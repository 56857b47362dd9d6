// Operations after a convolution that cuDNN could not fuse.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

// result = relu(result + bias + addend), with the terms that the problem has.
void convolution_epilogue(KernelContext& ctx, const ConvolutionProblem& problem,
                          const ConvolutionOperands& operands);
// The same for an array (outer, channels, inner): adds a bias per channel.
void add_bias(KernelContext& ctx, DType dtype, int64_t outer, int64_t channels, int64_t inner,
              const void* bias, void* output);

}  // namespace mxlite::cuda
