// Parameters that schemas and kernels of element-wise operators share.
#pragma once
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ScalarParams {
  Number scalar = 1.0;
  bool is_int = true;
  MX_FIELDS(ScalarParams,
            MX_FIELD(scalar,
                     "Second operand, a number that is converted to the dtype of the result."),
            MX_FIELD(is_int,
                     "Has no effect; accepted because MXNet 1.x writes this parameter to files."))
};

struct ClipParams {
  Number a_min = 0, a_max = 0;
  MX_FIELDS(ClipParams, MX_REQUIRED_FIELD(a_min, "Lower bound."),
            MX_REQUIRED_FIELD(a_max, "Upper bound."))
};

struct SmoothL1Params {
  double scalar = 1.0;
  MX_FIELDS(SmoothL1Params, MX_FIELD(scalar,
                                     "Parameter sigma: the function is quadratic for abs(x) < 1 / "
                                     "sigma^2 and linear elsewhere."))
};

struct HardSigmoidParams {
  double alpha = 0.2, beta = 0.5;
  MX_FIELDS(HardSigmoidParams, MX_FIELD(alpha, "Slope of the linear part."),
            MX_FIELD(beta, "Value for data = 0."))
};

}  // namespace mxlite
