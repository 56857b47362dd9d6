// Parameters that element-wise schemas share with their kernels.
#pragma once
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ScalarParams {
  Number scalar = 1.0;
  bool is_int = true;
  static constexpr auto fields() {
    return std::tuple(
        field("scalar", &ScalarParams::scalar,
              "The other operand, converted to the result's dtype."),
        field("is_int", &ScalarParams::is_int, "Written by 1.x into graphs; has no effect."));
  }
};

struct ClipParams {
  Number a_min = 0, a_max = 0;
  static constexpr auto fields() {
    return std::tuple(required_field("a_min", &ClipParams::a_min, "Lower bound."),
                      required_field("a_max", &ClipParams::a_max, "Upper bound."));
  }
};

struct SmoothL1Params {
  double scalar = 1.0;
  static constexpr auto fields() {
    return std::tuple(field("scalar", &SmoothL1Params::scalar,
                            "sigma: the function is quadratic within 1 / sigma^2 of 0."));
  }
};

struct HardSigmoidParams {
  double alpha = 0.2, beta = 0.5;
  static constexpr auto fields() {
    return std::tuple(field("alpha", &HardSigmoidParams::alpha, "Slope."),
                      field("beta", &HardSigmoidParams::beta, "Value at 0."));
  }
};

}  // namespace mxlite
