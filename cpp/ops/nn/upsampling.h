// UpSampling: nearest neighbor, of one or several inputs to a common size; or bilinear, which is a
// deconvolution with the second input as weight (channels, 1, k, k), k = 2 scale - scale % 2.
#pragma once
#include "cpp/ops/nn/deconvolution.h"

namespace mxlite {

enum class SampleType : uint8_t { kBilinear, kNearest };
MX_ENUM_NAMES(SampleType, {"bilinear", E::kBilinear}, {"nearest", E::kNearest})
enum class MultiInputMode : uint8_t { kConcat, kSum };
MX_ENUM_NAMES(MultiInputMode, {"concat", E::kConcat}, {"sum", E::kSum})

struct UpSamplingParams {
  int64_t scale = 1, num_filter = 0;
  SampleType sample_type = SampleType::kNearest;
  MultiInputMode multi_input_mode = MultiInputMode::kConcat;
  int64_t workspace = 512;
  MX_FIELDS(
      UpSamplingParams,
      MX_REQUIRED_FIELD(scale,
                        "Factor of the first input's height and width; the other inputs are "
                        "enlarged to the same size.")
          .between(1, kMaxSize),
      MX_FIELD(num_filter, "Number of channels for sample_type 'bilinear'; 0 infers it."),
      MX_REQUIRED_FIELD(sample_type,
                        "How pixels are enlarged: nearest repeats them, bilinear applies a "
                        "transposed convolution with the input weight."),
      MX_FIELD(multi_input_mode,
               "How several inputs are combined: concat joins their channels, sum adds them."),
      MX_FIELD(workspace, "Has no effect; accepted for compatibility with MXNet 1.x."))
  DeconvolutionParams deconvolution(int64_t channels) const {
    const int64_t kernel = 2 * scale - scale % 2, pad = scale / 2;
    DeconvolutionParams d;
    d.kernel = {kernel, kernel};
    d.stride = {scale, scale};
    d.pad = {pad, pad};
    d.num_filter = d.num_group = channels;
    return d;
  }
};

// Params of `_upsampling_backward(output_grad)`, which returns the gradient of the input whose
// channels begin at `channel` of the output and whose elements were repeated `scale` times.
struct UpSamplingGradParams {
  Shape data_shape;
  int64_t scale = 1, channel = 0;
  MX_FIELDS(UpSamplingGradParams, MX_REQUIRED_FIELD(data_shape, "Shape of the gradient."),
            MX_REQUIRED_FIELD(scale, "Number of repetitions along height and width."),
            MX_FIELD(channel, "First channel of output_grad."))
};

}  // namespace mxlite
