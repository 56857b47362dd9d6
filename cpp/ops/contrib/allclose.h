// Whether two arrays are equal within a tolerance.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite {

struct AllcloseParams {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = true;
  static constexpr auto fields() {
    return std::tuple(
        field("rtol", &AllcloseParams::rtol, "Allowed difference relative to abs(b)."),
        field("atol", &AllcloseParams::atol, "Allowed difference on top of that."),
        field("equal_nan", &AllcloseParams::equal_nan, "Whether two NaNs count as equal."));
  }
};

}  // namespace mxlite
