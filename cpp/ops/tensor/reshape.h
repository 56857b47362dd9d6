// Operators that keep the elements and change the shape.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct ReshapeParams {
  Shape shape;
  bool reverse = false;
  Shape target_shape;
  bool keep_highest = false;
  static constexpr auto fields() {
    return std::tuple(
        field(
            "shape", &ReshapeParams::shape,
            "Target; 0 keeps a dimension, -1 infers one, -2 keeps the rest, -3 joins the next two, "
            "-4 splits one into the two numbers that follow.")
            .at_least(-4),
        field("reverse", &ReshapeParams::reverse, "Match shape from the right."),
        field("target_shape", &ReshapeParams::target_shape,
              "Old spelling of shape: 0 infers one dimension.")
            .at_least(0),
        field("keep_highest", &ReshapeParams::keep_highest,
              "With target_shape: keep the first dimension."));
  }
};

struct ExpandDimsParams {
  int axis = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("axis", &ExpandDimsParams::axis, "Position of the new axis of length 1."));
  }
};

struct SqueezeParams {
  std::optional<Shape> axis;
  static constexpr auto fields() {
    return std::tuple(field("axis", &SqueezeParams::axis,
                            "Axes of length 1 to remove; None removes all of them."));
  }
};

struct ReshapeLikeParams {
  std::optional<int> lhs_begin, lhs_end, rhs_begin, rhs_end;
  static constexpr auto fields() {
    return std::tuple(
        field("lhs_begin", &ReshapeLikeParams::lhs_begin, "First axis of lhs to replace."),
        field("lhs_end", &ReshapeLikeParams::lhs_end, "End of the axes of lhs to replace."),
        field("rhs_begin", &ReshapeLikeParams::rhs_begin, "First axis of rhs to take."),
        field("rhs_end", &ReshapeLikeParams::rhs_end, "End of the axes of rhs to take."));
  }
};

// Returns the new shape for data of shape `from`.
Shape resolve_reshape(const ReshapeParams& p, const Shape& from);

}  // namespace mxlite
