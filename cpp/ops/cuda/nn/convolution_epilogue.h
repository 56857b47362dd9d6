// Operations after a convolution that cuDNN cannot fuse.
#pragma once
#include "cpp/ops/cuda/nn/convolution_plan.h"

namespace mxlite::cuda {

// result = relu(result + bias + addend), with only the terms that the problem has.
void convolution_epilogue(KernelContext& ctx, const ConvolutionProblem& problem,
                          const ConvolutionOperands& operands);
// Adds a bias per channel to an array (outer, channels, inner).
void add_bias(KernelContext& ctx, DType dtype, int64_t outer, int64_t channels, int64_t inner,
              const void* bias, void* output);

}  // namespace mxlite::cuda
