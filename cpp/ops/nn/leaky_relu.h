// LeakyReLU and its variants. prelu takes the slope from the input gamma: (1,), one per channel
// (axis 1), or one for each entry of the first two axes. In training, rrelu draws the slope from
// [lower_bound, upper_bound) and returns the factors as hidden second output; otherwise the slope
// is the mean of the bounds. gelu uses the error function, gelu_tanh (MXNet 2) its approximation.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

enum class LeakyReLUType : uint8_t { kElu, kGelu, kGeluTanh, kLeaky, kPrelu, kRrelu, kSelu };
MX_ENUM_NAMES(LeakyReLUType, {"elu", E::kElu}, {"gelu", E::kGelu}, {"gelu_tanh", E::kGeluTanh},
              {"leaky", E::kLeaky}, {"prelu", E::kPrelu}, {"rrelu", E::kRrelu}, {"selu", E::kSelu})

// Also the params of `_leaky_relu_backward(output_grad, data[, gamma])` -> gradients of data[,
// gamma].
struct LeakyReLUParams {
  LeakyReLUType act_type = LeakyReLUType::kLeaky;
  float slope = 0.25f, lower_bound = 0.125f, upper_bound = 0.334f;
  MX_FIELDS(
      LeakyReLUParams,
      MX_FIELD(
          act_type,
          "Values for x < 0 are slope * x with leaky, gamma * x with prelu, x times a random slope "
          "with rrelu, slope * (exp(x) - 1) with elu; gelu_tanh approximates gelu by tanh."),
      MX_FIELD(slope, "Slope of leaky and factor of elu for negative elements."),
      MX_FIELD(
          lower_bound,
          "Smallest random slope of rrelu in training; inference uses the mean of both bounds."),
      MX_FIELD(
          upper_bound,
          "Largest random slope of rrelu in training; inference uses the mean of both bounds."))
};

}  // namespace mxlite
