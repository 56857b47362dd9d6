// Joining and splitting along one axis.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct ConcatParams {
  int dim = 1;
  static constexpr auto fields() {
    return std::tuple(field("dim", &ConcatParams::dim, "Axis along which the inputs are joined."));
  }
};

struct StackParams {
  int axis = 0;
  static constexpr auto fields() {
    return std::tuple(field("axis", &StackParams::axis, "Position of the new axis."));
  }
};

// Upper bound of the number of parts, because each part is a separate array.
inline constexpr double kMaxParts = 65536;

struct SliceChannelParams {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
  static constexpr auto fields() {
    return std::tuple(
        required_field("num_outputs", &SliceChannelParams::num_outputs, "Number of equal parts.")
            .between(1, kMaxParts),
        field("axis", &SliceChannelParams::axis, "Axis that is split."),
        field("squeeze_axis", &SliceChannelParams::squeeze_axis,
              "Remove the axis, which then has length 1 in every part."));
  }
};

struct SplitV2Params {
  OptionalInts indices;  // may be longer than a Shape can be
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("indices", &SplitV2Params::indices, "First index of every part."),
        field("axis", &SplitV2Params::axis, "Axis that is split."),
        field("squeeze_axis", &SplitV2Params::squeeze_axis,
              "Remove the axis, which then has length 1 in every part."),
        field("sections", &SplitV2Params::sections,
              "Number of parts of about equal length; 0 uses indices.")
            .between(0, kMaxParts));
  }
};

}  // namespace mxlite
