// nd.contrib's index_array, index_copy and arange_like.
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/attr.h"

namespace mxlite {

struct IndexArrayParams {
  std::optional<Shape> axes;
  MX_FIELDS(IndexArrayParams,
            MX_FIELD(axes, "Axes whose indices are returned, in this order; None: all axes."))
};

struct ArangeLikeParams {
  double start = 0, step = 1;
  int64_t repeat = 1;
  std::string ctx;
  std::optional<int> axis;
  MX_FIELDS(
      ArangeLikeParams, MX_FIELD(start, "First value."),
      MX_FIELD(step, "Difference of adjacent values."),
      MX_FIELD(repeat, "How many times each value is repeated.").between(1, kMaxSize),
      MX_FIELD(ctx, "Has no effect: the output is on data's device."),
      MX_FIELD(
          axis,
          "Axis whose length is the number of values; None: the output has the shape of data."))
};

}  // namespace mxlite
