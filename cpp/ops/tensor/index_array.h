// nd.contrib's index_array, index_copy and arange_like.
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/attr.h"

namespace mxlite {

struct IndexArrayParams {
  std::optional<Shape> axes;
  MX_FIELDS(IndexArrayParams, MX_FIELD(axes, "Axes whose index is written; None: all of them."))
};

struct ArangeLikeParams {
  double start = 0, step = 1;
  int64_t repeat = 1;
  std::string ctx;
  std::optional<int> axis;
  MX_FIELDS(ArangeLikeParams, MX_FIELD(start, "First value."),
            MX_FIELD(step, "Difference of neighbours."),
            MX_FIELD(repeat, "How often every value occurs.").between(1, kMaxSize),
            MX_FIELD(ctx, "Ignored: the output is on data's device."),
            MX_FIELD(axis, "Axis whose length counts; None: the shape of data."))
};

}  // namespace mxlite
