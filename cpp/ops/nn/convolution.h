// Convolution: output (N, num_filter, ...) from data (N, C, ...) and weight (num_filter, C /
// num_group, *kernel). In channels-last layouts, channels are last in all three arrays.
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

struct ConvolutionParams {
  Shape kernel, stride, dilate, pad;
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::optional<std::string> cudnn_tune;
  bool cudnn_off = false;
  std::optional<SpatialLayout> layout;

  MX_FIELDS(ConvolutionParams, window_fields<P>(), filter_fields<P>(), convolution_fields<P>())
  bool channels_last() const { return is_channels_last(layout); }
  SpatialWindow window() const { return make_window(kernel, stride, dilate, pad); }
};

// Parameters of `_convolution_backward_data(output_grad, weight)`. The gradient of the weights,
// `_convolution_backward_weight(output_grad, data)`, has ConvolutionParams and a second output,
// the bias gradient, unless no_bias.
struct ConvolutionDataGradParams : ConvolutionParams {
  Shape data_shape;
  MX_FIELDS(ConvolutionDataGradParams, ConvolutionParams::fields(),
            MX_REQUIRED_FIELD(data_shape, "Shape of the gradient."))
};

// Returns the weight's shape for data of the given shape, which must be valid.
Shape convolution_weight_shape(const ConvolutionParams& p, const Shape& data);

}  // namespace mxlite
