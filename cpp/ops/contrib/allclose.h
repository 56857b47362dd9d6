// Tests whether two arrays are equal within a tolerance.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct AllcloseParams {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = true;
  MX_FIELDS(AllcloseParams, MX_FIELD(rtol, "Relative tolerance, a factor of abs(b)."),
            MX_FIELD(atol, "Absolute tolerance, which is added to rtol * abs(b)."),
            MX_FIELD(equal_nan, "Whether NaN is equal to NaN."))
};

}  // namespace mxlite
