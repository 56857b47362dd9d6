// UpSampling: nearest neighbour, of one or several inputs to one size; or bilinear, which is a
// deconvolution with the second input as weight (channels, 1, k, k), k = 2 scale - scale % 2.
#pragma once
#include <array>
#include <tuple>

#include "cpp/ops/nn/deconvolution.h"

namespace mxlite {

enum class SampleType : uint8_t { kBilinear, kNearest };
template <>
struct EnumNames<SampleType> {
  static constexpr std::array<std::pair<const char*, SampleType>, 2> names = {
      {{"bilinear", SampleType::kBilinear}, {"nearest", SampleType::kNearest}}};
};
enum class MultiInputMode : uint8_t { kConcat, kSum };
template <>
struct EnumNames<MultiInputMode> {
  static constexpr std::array<std::pair<const char*, MultiInputMode>, 2> names = {
      {{"concat", MultiInputMode::kConcat}, {"sum", MultiInputMode::kSum}}};
};

struct UpSamplingParams {
  int64_t scale = 1, num_filter = 0;
  SampleType sample_type = SampleType::kNearest;
  MultiInputMode multi_input_mode = MultiInputMode::kConcat;
  int64_t workspace = 512;
  static constexpr auto fields() {
    using P = UpSamplingParams;
    return std::tuple(
        required_field("scale", &P::scale, "Factor of height and width of the first input.")
            .between(1, kMaxSize),
        field("num_filter", &P::num_filter, "Number of channels, for bilinear."),
        required_field("sample_type", &P::sample_type, "How values between are found."),
        field("multi_input_mode", &P::multi_input_mode, "Concatenate channels or add."),
        field("workspace", &P::workspace, "Accepted for compatibility, without effect."));
  }
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
  static constexpr auto fields() {
    using P = UpSamplingGradParams;
    return std::tuple(required_field("data_shape", &P::data_shape, "Shape of the gradient."),
                      required_field("scale", &P::scale, "Repetitions along height and width."),
                      field("channel", &P::channel, "First channel of output_grad."));
  }
};

}  // namespace mxlite
