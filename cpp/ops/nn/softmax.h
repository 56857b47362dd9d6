// softmax, log_softmax and softmin along one axis. With use_length, only the first `length` entries
// are used, and the other outputs are 0. length has data's shape without the axis.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite {

// Also the params of the backward operators (output_grad, output[, length]).
struct SoftmaxParams {
  int axis = -1;
  std::optional<double> temperature;
  std::optional<DType> dtype;
  bool use_length = false;

  MX_FIELDS(SoftmaxParams, MX_FIELD(axis, "Axis that is normalized."),
            MX_FIELD(temperature, "Number that data is divided by; None is 1."),
            MX_FIELD(dtype, "Element type of the output; None means that of data."),
            MX_FIELD(use_length, "Whether length is given."))
  // Views data around the axis, which must be valid (checked by the shape rule).
  ChannelBlocks blocks(const Shape& data) const { return channel_blocks(data, axis); }
};

struct SoftmaxGradParams : SoftmaxParams {
  DType data_dtype = DType::kFloat32;
  MX_FIELDS(SoftmaxGradParams, SoftmaxParams::fields(),
            MX_FIELD(data_dtype, "dtype of the gradient."))
};

// SoftmaxActivation(data) and `_softmax_activation_backward(output_grad, output)`: softmax over all
// elements of a sample (instance) or over axis 1 (channel).
enum class SoftmaxMode : uint8_t { kChannel, kInstance };
MX_ENUM_NAMES(SoftmaxMode, {"channel", E::kChannel}, {"instance", E::kInstance})
struct SoftmaxActivationParams {
  SoftmaxMode mode = SoftmaxMode::kInstance;
  MX_FIELDS(SoftmaxActivationParams, MX_FIELD(mode,
                                              "Axes along which the output sums to 1: instance: "
                                              "all except the first; channel: axis 1."))
  ChannelBlocks blocks(const Shape& data) const {
    if (mode == SoftmaxMode::kChannel) return channel_blocks(data, 1);
    return {data[0], data.product(1, data.ndim()), 1};
  }
};

}  // namespace mxlite
