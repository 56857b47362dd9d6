// Operators that permute or reverse axes.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct TransposeParams {
  Shape axes;
  MX_FIELDS(
      TransposeParams,
      MX_FIELD(axes,
               "Axis of data for each axis of the output; () reverses the order of the axes."))
};

struct SwapAxisParams {
  int dim1 = 0, dim2 = 0;
  MX_FIELDS(SwapAxisParams, MX_FIELD(dim1, "First axis that is exchanged."),
            MX_FIELD(dim2, "Second axis that is exchanged."))
};

struct ReverseParams {
  Shape axis;
  MX_FIELDS(ReverseParams, MX_REQUIRED_FIELD(axis, "Axes along which the order is reversed."))
};

// Returns the input axis for each output axis.
Shape resolve_axes(const TransposeParams& p, int ndim);
Shape resolve_axes(const SwapAxisParams& p, int ndim);

}  // namespace mxlite
