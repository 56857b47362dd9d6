// one_hot and the conversions between flat indices and coordinates.
#pragma once
#include "cpp/ops/number.h"

namespace mxlite {

struct OneHotParams {
  int64_t depth = 0;
  Number on_value = 1, off_value = 0;
  DType dtype = DType::kFloat32;
  MX_FIELDS(OneHotParams, MX_REQUIRED_FIELD(depth, "Length of the new last axis.").at_least(0),
            MX_FIELD(on_value, "Value at the position of the index."),
            MX_FIELD(off_value, "Value at all other positions."),
            MX_FIELD(dtype, "Element type of the output."))
};

struct RavelParams {
  Shape shape;
  MX_FIELDS(RavelParams,
            MX_REQUIRED_FIELD(
                shape,
                "Shape of the array that the indices refer to; the first dimension may be -1.")
                .at_least(-1))
};

}  // namespace mxlite
