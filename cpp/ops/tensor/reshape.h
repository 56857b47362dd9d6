// Operators that keep the elements and change the shape.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

struct ReshapeParams {
  Shape shape;
  bool reverse = false;
  Shape target_shape;
  bool keep_highest = false;
  MX_FIELDS(
      ReshapeParams,
      MX_FIELD(
          shape,
          "Target; 0 keeps a dimension, -1 infers one, -2 keeps the rest, -3 joins the next two, "
          "-4 splits one into the two numbers that follow.")
          .at_least(-4),
      MX_FIELD(reverse, "Match shape from the right."),
      MX_FIELD(target_shape, "Old spelling of shape: 0 infers one dimension.").at_least(0),
      MX_FIELD(keep_highest, "With target_shape: keep the first dimension."))
};

struct ExpandDimsParams {
  int axis = 0;
  MX_FIELDS(ExpandDimsParams, MX_REQUIRED_FIELD(axis, "Position of the new axis of length 1."))
};

struct SqueezeParams {
  std::optional<Shape> axis;
  MX_FIELDS(SqueezeParams, MX_FIELD(axis, "Axes of length 1 to remove; None removes all of them."))
};

struct ReshapeLikeParams {
  std::optional<int> lhs_begin, lhs_end, rhs_begin, rhs_end;
  MX_FIELDS(ReshapeLikeParams, MX_FIELD(lhs_begin, "First axis of lhs to replace."),
            MX_FIELD(lhs_end, "End of the axes of lhs to replace."),
            MX_FIELD(rhs_begin, "First axis of rhs to take."),
            MX_FIELD(rhs_end, "End of the axes of rhs to take."))
};

// Returns the new shape for data of shape `from`.
Shape resolve_reshape(const ReshapeParams& p, const Shape& from);

}  // namespace mxlite
