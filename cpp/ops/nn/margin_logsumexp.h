// Softmax statistics of rows of logits, of which another array or process may have more columns;
// with the margins of face recognition.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct MarginLogsumexpParams {
  double factor = 1, angle = 0, distance = 0, scale = 1;
  MX_FIELDS(MarginLogsumexpParams,
            MX_FIELD(factor,
                     "The target's cosine cos(t) becomes cos(factor * t + angle) - "
                     "distance."),
            MX_FIELD(angle, "See factor."), MX_FIELD(distance, "See factor."),
            MX_FIELD(scale, "Factor of the logits, after the margin."))
  bool has_angle() const { return factor != 1 || angle != 0; }
};

}  // namespace mxlite
