// Fused operator for training: a convolution without bias, BatchNorm of its result, and optionally
// an addition and relu. A kernel can sum the channels while it stores the convolution's result.
// Only graph/passes/fuse_statistics.cc emits this operator, for channels-last layouts.
//
// Inputs: data, weight, gamma, beta, moving_mean, moving_var, and with `added` the array to add.
// Outputs: result, mean, inverse standard deviation, the convolution's result, float32 memory (2,
// C) for the sums of its channels and of their squares, which only kernels read, and with `added`
// one bit per element, set where relu was active.
#pragma once
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/convolution.h"

namespace mxlite {

struct ConvolutionBatchNormParams : ConvolutionParams {
  double eps = 1e-3;
  float momentum = 0.9f;
  bool fix_gamma = true, relu = false, added = false;

  MX_FIELDS(ConvolutionBatchNormParams, ConvolutionParams::fields(),

            MX_FIELD(eps, "Added to the variance so that the divisor is not 0.").at_least(0),
            MX_FIELD(momentum,
                     "Weight of the old value in running statistics: running = momentum * running "
                     "+ (1 - momentum) * batch.")
                .between(0, 1),
            MX_FIELD(fix_gamma, "Whether gamma is taken as 1 and gets gradient 0."),
            MX_FIELD(relu, "Whether relu ends the operator."),
            MX_FIELD(added, "Whether an array is added before relu."))
  // Return the parameters and the name of the operator that normalizes.
  BatchNormParams norm() const {
    BatchNormParams p;
    p.eps = eps;
    p.momentum = momentum;
    p.fix_gamma = fix_gamma;
    p.axis = -1;
    return p;
  }
  const char* norm_op() const {
    return added ? "_batch_norm_add_relu_bits" : relu ? "_batch_norm_relu" : "BatchNorm";
  }
};

}  // namespace mxlite
