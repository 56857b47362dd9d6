#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct BipartiteMatchingParams {
  bool is_ascend = false;
  float threshold = 0;
  int topk = -1;
  MX_FIELDS(BipartiteMatchingParams, MX_FIELD(is_ascend, "The smallest scores match first."),
            MX_REQUIRED_FIELD(threshold,
                              "Only scores above this match; with is_ascend those below."),
            MX_FIELD(topk, "Ends after topk + 1 matches, as 1.x does; below 1: no limit."))
};

}  // namespace mxlite
