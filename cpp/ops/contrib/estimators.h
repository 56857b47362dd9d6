// Element-wise operators whose gradient is not their derivative, and the quadratic example.
#pragma once
#include "cpp/ops/op_schema.h"
#include "cpp/ops/pointwise/math.h"

namespace mxlite {

struct QuadraticParams {
  double a = 0, b = 0, c = 0;
  MX_FIELDS(QuadraticParams, MX_FIELD(a, "Factor of data * data."), MX_FIELD(b, "Factor of data."),
            MX_FIELD(c, "Constant term."))
};

namespace pointwise {

struct Quadratic {
  static constexpr bool math = true;
  static constexpr int num_args = 3;
  template <class T>
  static MX_HD T apply(T x, const T* p) {
    return (p[0] * x + p[1]) * x + p[2];
  }
};

}  // namespace pointwise

}  // namespace mxlite
