// Element-wise operators whose gradient is not their derivative, and the quadratic example.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct QuadraticParams {
  double a = 0, b = 0, c = 0;
  static constexpr auto fields() {
    return std::tuple(field("a", &QuadraticParams::a, "Factor on data * data."),
                      field("b", &QuadraticParams::b, "Factor on data."),
                      field("c", &QuadraticParams::c, "Constant."));
  }
};

}  // namespace mxlite
