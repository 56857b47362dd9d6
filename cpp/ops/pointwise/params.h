// Parameters that schemas and kernels of element-wise operators share.
#pragma once
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ScalarParams {
  Number scalar = 1.0;
  bool is_int = true;
  MX_FIELDS(ScalarParams, MX_FIELD(scalar, "The other operand, converted to the result's dtype."),
            MX_FIELD(is_int, "Written by 1.x into graphs; has no effect."))
};

struct ClipParams {
  Number a_min = 0, a_max = 0;
  MX_FIELDS(ClipParams, MX_REQUIRED_FIELD(a_min, "Lower bound."),
            MX_REQUIRED_FIELD(a_max, "Upper bound."))
};

struct SmoothL1Params {
  double scalar = 1.0;
  MX_FIELDS(SmoothL1Params,
            MX_FIELD(scalar, "sigma: the function is quadratic within 1 / sigma^2 of 0."))
};

struct HardSigmoidParams {
  double alpha = 0.2, beta = 0.5;
  MX_FIELDS(HardSigmoidParams, MX_FIELD(alpha, "Slope."), MX_FIELD(beta, "Value at 0."))
};

}  // namespace mxlite
