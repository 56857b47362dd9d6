// repeat and tile.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

struct RepeatParams {
  int64_t repeats = 1;
  std::optional<int> axis;
  MX_FIELDS(
      RepeatParams,
      MX_REQUIRED_FIELD(repeats, "How many times each element is repeated.").between(0, kMaxSize),
      MX_FIELD(axis,
               "Axis along which elements are repeated; None repeats the elements of the flattened "
               "array."))
};

struct TileParams {
  Shape reps;
  MX_FIELDS(TileParams,
            MX_REQUIRED_FIELD(reps, "How many times the array is repeated along each axis.")
                .between(0, kMaxSize))
};

// Sizes of `shape` viewed as (outer, length, inner) around the repeated axis.
struct RepeatView {
  int64_t outer, length, inner;
};
RepeatView repeat_view(const RepeatParams& p, const Shape& shape);

}  // namespace mxlite
