// LeakyReLU and its variants. prelu takes the slope from the input gamma: (1,), one per channel
// (axis 1), or one for each entry of the first two axes. In training, rrelu draws the slope from
// [lower_bound, upper_bound) and returns the factors as hidden second output; otherwise the slope
// is the mean of the bounds. gelu uses the error function, gelu_tanh (MXNet 2) its approximation.
#pragma once
#include <array>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class LeakyReLUType : uint8_t { kElu, kGelu, kGeluTanh, kLeaky, kPrelu, kRrelu, kSelu };
template <>
struct EnumNames<LeakyReLUType> {
  using E = LeakyReLUType;
  static constexpr std::array<std::pair<const char*, E>, 7> names = {{{"elu", E::kElu},
                                                                      {"gelu", E::kGelu},
                                                                      {"gelu_tanh", E::kGeluTanh},
                                                                      {"leaky", E::kLeaky},
                                                                      {"prelu", E::kPrelu},
                                                                      {"rrelu", E::kRrelu},
                                                                      {"selu", E::kSelu}}};
};

// Also for `_leaky_relu_backward(output_grad, data[, gamma])` -> gradients of data[, gamma].
struct LeakyReLUParams {
  LeakyReLUType act_type = LeakyReLUType::kLeaky;
  float slope = 0.25f, lower_bound = 0.125f, upper_bound = 0.334f;
  static constexpr auto fields() {
    using P = LeakyReLUParams;
    return std::tuple(field("act_type", &P::act_type, "Function that is applied."),
                      field("slope", &P::slope, "Slope of leaky and factor of elu below 0."),
                      field("lower_bound", &P::lower_bound, "Least slope of rrelu."),
                      field("upper_bound", &P::upper_bound, "Largest slope of rrelu."));
  }
};

}  // namespace mxlite
