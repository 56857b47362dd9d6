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
      MX_FIELD(ignore_label, "Label whose positions get gradient 0 if use_ignore is True."),
      MX_FIELD(
          multi_output,
          "Whether softmax is along axis 1, with one label for each position of the other axes."),
      MX_FIELD(use_ignore, "Whether positions whose label is ignore_label get gradient 0."),
      MX_FIELD(preserve_shape,
               "Whether softmax is along the last axis; otherwise all axes except the first are "
               "joined."),
      MX_FIELD(normalization,
               "Divisor of the gradient: null: 1; batch: the batch size; valid: the number of "
               "labels that are not ignored."),
      MX_FIELD(
          out_grad,
          "Whether to multiply the gradient by the output's gradient, which is otherwise ignored."),
      MX_FIELD(smooth_alpha,
               "Label smoothing: the label's class has the target 1 - smooth_alpha, and the other "
               "classes share smooth_alpha equally.")
          .between(0, 1))
  // Views data as (samples, classes, positions), with one label per sample and position.
  ChannelBlocks blocks(const Shape& data) const {
    if (multi_output) return channel_blocks(data, 1);
    if (preserve_shape) return channel_blocks(data, -1);
    return {data[0], data.product(1, data.ndim()), 1};
  }
};

}  // namespace mxlite
