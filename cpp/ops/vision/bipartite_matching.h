#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct BipartiteMatchingParams {
  bool is_ascend = false;
  float threshold = 0;
  int topk = -1;
  static constexpr auto fields() {
    using P = BipartiteMatchingParams;
    return std::tuple(
        field("is_ascend", &P::is_ascend, "The smallest scores match first."),
        required_field("threshold", &P::threshold,
                       "Only scores above this match; with is_ascend those below."),
        field("topk", &P::topk, "Ends after topk + 1 matches, as 1.x does; below 1: no limit."));
  }
};

}  // namespace mxlite
