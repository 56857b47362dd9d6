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
      MX_FIELD(shape,
               "New shape; 0 keeps a dimension of data, -1 infers one, -2 keeps all remaining "
               "dimensions, -3 joins the next two, -4 splits the next one into the two numbers "
               "that follow.")
          .at_least(-4),
      MX_FIELD(
          reverse,
          "Whether special values of shape are matched with data's dimensions from the right."),
      MX_FIELD(target_shape, "Deprecated form of shape, in which 0 infers one dimension.")
          .at_least(0),
      MX_FIELD(keep_highest, "Whether the first dimension stays if target_shape is given."))
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
  MX_FIELDS(
      ReshapeLikeParams,
      MX_FIELD(lhs_begin, "First axis of lhs that is replaced; None: the first."),
      MX_FIELD(lhs_end,
               "Axis after the last one of lhs that is replaced; None: the number of axes."),
      MX_FIELD(rhs_begin, "First axis of rhs whose length is used; None: the first."),
      MX_FIELD(rhs_end,
               "Axis after the last one of rhs whose length is used; None: the number of axes."))
};

// Returns the new shape for data of shape `from`.
Shape resolve_reshape(const ReshapeParams& p, const Shape& from);

}  // namespace mxlite
