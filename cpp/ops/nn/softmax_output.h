// SoftmaxOutput: softmax whose gradient is that of the cross entropy with label. The output's
// gradient is ignored, or is a factor of this gradient if out_grad is True.
#pragma once
#include "cpp/ops/attr.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite {

enum class LossNormalization : uint8_t { kBatch, kNull, kValid };
MX_ENUM_NAMES(LossNormalization, {"batch", E::kBatch}, {"null", E::kNull}, {"valid", E::kValid})

// Also the params of `_softmax_output_backward(output, label[, output_grad])`.
struct SoftmaxOutputParams {
  float grad_scale = 1.0f, ignore_label = -1.0f;
  bool multi_output = false, use_ignore = false, preserve_shape = false;
  LossNormalization normalization = LossNormalization::kNull;
  bool out_grad = false;
  float smooth_alpha = 0.0f;

  MX_FIELDS(
      SoftmaxOutputParams, MX_FIELD(grad_scale, "Factor of the gradient."),
      MX_FIELD(ignore_label, "Label whose gradient is 0, with use_ignore."),
      MX_FIELD(multi_output, "Softmax over axis 1, one label per position."),
      MX_FIELD(use_ignore, "Leave out labels equal to ignore_label."),
      MX_FIELD(preserve_shape, "Softmax over the last axis."),
      MX_FIELD(normalization,
               "Divides the gradient by nothing, the batch size or the number of valid labels."),
      MX_FIELD(out_grad, "Multiply by the gradient that arrives from above."),
      MX_FIELD(smooth_alpha, "Label smoothing.").between(0, 1))
  // Views data as (samples, classes, positions), with one label per sample and position.
  ChannelBlocks blocks(const Shape& data) const {
    if (multi_output) return channel_blocks(data, 1);
    if (preserve_shape) return channel_blocks(data, -1);
    return {data[0], data.product(1, data.ndim()), 1};
  }
};

}  // namespace mxlite
