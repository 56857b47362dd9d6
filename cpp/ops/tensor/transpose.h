// Operators that permute or reverse axes.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct TransposeParams {
  Shape axes;
  static constexpr auto fields() {
    return std::tuple(field("axes", &TransposeParams::axes,
                            "Input axis of every output axis; empty reverses the order."));
  }
};

struct SwapAxisParams {
  int dim1 = 0, dim2 = 0;
  static constexpr auto fields() {
    return std::tuple(field("dim1", &SwapAxisParams::dim1, "First axis."),
                      field("dim2", &SwapAxisParams::dim2, "Second axis."));
  }
};

struct ReverseParams {
  Shape axis;
  static constexpr auto fields() {
    return std::tuple(required_field("axis", &ReverseParams::axis, "Axes to reverse."));
  }
};

// Returns the input axis for each output axis.
Shape resolve_axes(const TransposeParams& p, int ndim);
Shape resolve_axes(const SwapAxisParams& p, int ndim);

}  // namespace mxlite
