// Joining and splitting along one axis.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct ConcatParams {
  int dim = 1;
  MX_FIELDS(ConcatParams, MX_FIELD(dim, "Axis along which the inputs are joined."))
};

struct StackParams {
  int axis = 0;
  MX_FIELDS(StackParams, MX_FIELD(axis, "Position of the new axis."))
};

// Upper bound of the number of parts, because each part is a separate array.
inline constexpr double kMaxParts = 65536;

struct SliceChannelParams {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
  MX_FIELDS(
      SliceChannelParams,
      MX_REQUIRED_FIELD(num_outputs, "Number of equal parts that the axis is split into.")
          .between(1, kMaxParts),
      MX_FIELD(axis, "Axis that is split."),
      MX_FIELD(squeeze_axis,
               "Whether to remove the split axis from each part, where it must have length 1."))
};

struct SplitV2Params {
  OptionalInts indices;  // may have more entries than a Shape holds
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
  MX_FIELDS(
      SplitV2Params, MX_REQUIRED_FIELD(indices, "First index of each part along the axis."),
      MX_FIELD(axis, "Axis that is split."),
      MX_FIELD(squeeze_axis,
               "Whether to remove the split axis from each part, where it must have length 1."),
      MX_FIELD(sections, "Number of parts of about equal length; 0 splits at indices instead.")
          .between(0, kMaxParts))
};

}  // namespace mxlite
