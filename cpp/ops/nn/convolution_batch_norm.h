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

struct ConvolutionBatchNormParams : ConvolutionParams, ChannelNormParams {
  bool relu = false, added = false;

  MX_FIELDS(ConvolutionBatchNormParams, ConvolutionParams::fields(), ChannelNormParams::fields(),
            MX_FIELD(relu, "Whether relu ends the operator."),
            MX_FIELD(added, "Whether an array is added before relu."))
  // Return the parameters and the name of the operator that normalizes.
  BatchNormParams norm() const {
    BatchNormParams p{static_cast<const ChannelNormParams&>(*this)};
    p.axis = -1;
    return p;
  }
  const char* norm_op() const {
    return added ? "_batch_norm_add_relu_bits" : relu ? "_batch_norm_relu" : "BatchNorm";
  }
};

}  // namespace mxlite
