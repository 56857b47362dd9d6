// Deconvolution (transposed convolution): the gradient of a convolution for its data, with weight
// (C, num_filter / num_group, *kernel).
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

struct DeconvolutionParams {
  Shape kernel, stride, dilate, pad, adj, target_shape;
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t workspace = 512;
  bool no_bias = true;
  std::optional<std::string> cudnn_tune;
  bool cudnn_off = false;
  std::optional<SpatialLayout> layout;

  MX_FIELDS(
      DeconvolutionParams,
      window_fields<P>(
          "Size of the window along the spatial axes: (w,), (h, w) or (d, h, w).",
          "Number of elements removed from both ends of each spatial axis of the output; () is 0."),
      MX_FIELD(adj,
               "Number of elements added at the end of each spatial axis of the output, less than "
               "stride; () is 0.")
          .between(0, kMaxSize),
      MX_FIELD(target_shape,
               "Spatial size of the output, from which pad and adj are computed; () uses pad and "
               "adj as given.")
          .between(0, kMaxSize),
      filter_fields<P>(), convolution_fields<P>())
  bool channels_last() const { return is_channels_last(layout); }
};

// Padding and adjustment for each kernel axis, after applying target_shape and defaults.
struct DeconvolutionPadding {
  Shape pad, adj;
};
DeconvolutionPadding deconvolution_padding(const DeconvolutionParams& p, const Shape& data);
Shape deconvolution_weight_shape(const DeconvolutionParams& p, const Shape& data);

// Returns the convolution whose data gradient is this deconvolution. The convolution's data is the
// output of the deconvolution and vice versa; both have weights of the same shape.
struct ConvolutionParams;
ConvolutionParams transposed_convolution(const DeconvolutionParams& p, const Shape& data);

}  // namespace mxlite
