// repeat and tile.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct RepeatParams {
  int64_t repeats = 1;
  std::optional<int> axis;
  static constexpr auto fields() {
    return std::tuple(
        required_field("repeats", &RepeatParams::repeats, "How often every element occurs.")
            .between(0, kMaxSize),
        field("axis", &RepeatParams::axis, "Axis of the repetition; None flattens the array."));
  }
};

struct TileParams {
  Shape reps;
  static constexpr auto fields() {
    return std::tuple(required_field("reps", &TileParams::reps,
                                     "How often the array is repeated along every axis.")
                          .between(0, kMaxSize));
  }
};

// Sizes of `shape` viewed as (outer, length, inner) around the repeated axis.
struct RepeatView {
  int64_t outer, length, inner;
};
RepeatView repeat_view(const RepeatParams& p, const Shape& shape);

}  // namespace mxlite
