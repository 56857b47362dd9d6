// nd.contrib's index_array, index_copy and arange_like.
#pragma once
#include <optional>
#include <string>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct IndexArrayParams {
  std::optional<Shape> axes;
  static constexpr auto fields() {
    return std::tuple(
        field("axes", &IndexArrayParams::axes, "Axes whose index is written; None: all of them."));
  }
};

struct ArangeLikeParams {
  double start = 0, step = 1;
  int64_t repeat = 1;
  std::string ctx;
  std::optional<int> axis;
  static constexpr auto fields() {
    return std::tuple(
        field("start", &ArangeLikeParams::start, "First value."),
        field("step", &ArangeLikeParams::step, "Difference of neighbours."),
        field("repeat", &ArangeLikeParams::repeat, "How often every value occurs.")
            .between(1, kMaxSize),
        field("ctx", &ArangeLikeParams::ctx, "Ignored: the output is on data's device."),
        field("axis", &ArangeLikeParams::axis,
              "Axis whose length counts; None: the shape of data."));
  }
};

}  // namespace mxlite
