#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct BipartiteMatchingParams {
  bool is_ascend = false;
  float threshold = 0;
  int topk = -1;
  MX_FIELDS(
      BipartiteMatchingParams, MX_FIELD(is_ascend, "Whether the smallest scores are the best."),
      MX_REQUIRED_FIELD(
          threshold,
          "Only scores above this value are paired, or below this value if is_ascend is True."),
      MX_FIELD(topk,
               "Limit of pairs: pairing ends after topk + 1 pairs, as in MXNet 1.x; 0 or less: no "
               "limit."))
};

}  // namespace mxlite
