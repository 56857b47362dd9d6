// Tests whether two arrays are equal within a tolerance.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct AllcloseParams {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = true;
  MX_FIELDS(AllcloseParams, MX_FIELD(rtol, "Allowed difference relative to abs(b)."),
            MX_FIELD(atol, "Allowed difference on top of that."),
            MX_FIELD(equal_nan, "Whether two NaNs count as equal."))
};

}  // namespace mxlite
