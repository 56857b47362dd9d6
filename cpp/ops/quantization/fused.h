// Convolutions and linear layers that read int8, add, apply an activation and write int8 or
// float32. The operators have the names that MXNet 1.9.1 gives to its fused nodes. BatchNorm is
// folded into weight and bias when a network is quantized.
#pragma once
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/quantization/quantization.h"

namespace mxlite::quantization {

enum class FusedActivation : uint8_t { kRelu, kGelu };

// The output is float32 unless the range of CalibratedParams is given.
struct FusedParams : CalibratedParams {
  bool with_sum = false, with_act = false;
  FusedActivation act_type = FusedActivation::kRelu;
  std::optional<float> act_max, sum_range;
  MX_FIELDS(FusedParams, CalibratedParams::fields(),
            MX_FIELD(with_sum,
                     "Whether to add the input `sum`, which is quantized if the output is, and "
                     "float32 otherwise."),
            MX_FIELD(with_act, "Whether to apply act_type, after the addition of `sum`."),
            MX_FIELD(act_type, "Activation function; gelu uses the error function."),
            MX_FIELD(act_max, "Upper bound of relu's output; None: no bound."),
            MX_FIELD(sum_range, "Largest absolute value that a quantized `sum` represents."))
  bool is_quantized() const { return min_calib_range.has_value(); }
  DType output_dtype() const {
    return is_quantized() ? target_dtype(out_type, min_calib_range) : DType::kFloat32;
  }
  // Returns the float that one unit of the quantized output represents.
  float output_unit() const {
    return largest_magnitude(*min_calib_range, *max_calib_range) / full_scale(output_dtype());
  }
  float sum_unit(DType dtype) const { return *sum_range / full_scale(dtype); }
};

struct FusedConvolutionParams : ConvolutionParams, FusedParams {
  MX_FIELDS(FusedConvolutionParams, ConvolutionParams::fields(), FusedParams::fields())
};

struct FusedFullyConnectedParams : FullyConnectedParams, FusedParams {
  MX_FIELDS(FusedFullyConnectedParams, FullyConnectedParams::fields(), FusedParams::fields())
};

// Positions of the inputs of a fused layer: data, weight[, bias], weight_scale, min_data, max_data
// [, sum].
struct FusedInputs {
  explicit FusedInputs(bool no_bias, bool with_sum)
      : bias(no_bias ? 0 : 2), scale(no_bias ? 2 : 3), sum(with_sum ? scale + 3 : 0) {}
  size_t bias, scale, sum;                 // bias and sum are 0 if the layer has no such input
  size_t arrays() const { return scale; }  // number of inputs of the layer on floats
  size_t low() const { return scale + 1; }
  size_t high() const { return scale + 2; }
  size_t count() const { return sum ? sum + 1 : scale + 3; }
};
template <class P>
FusedInputs fused_inputs(const P& p) {
  return FusedInputs(p.no_bias, p.with_sum);
}

}  // namespace mxlite::quantization

namespace mxlite {

MX_ENUM_NAMES(quantization::FusedActivation, {"relu", E::kRelu}, {"gelu", E::kGelu})

}  // namespace mxlite
