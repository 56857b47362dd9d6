// Softmax statistics of rows of logits, with the margins of face recognition. Other arrays or
// processes may hold further columns of the same rows.
#pragma once
#include <cmath>

#include "cpp/base/host_device.h"
#include "cpp/ops/attr.h"

namespace mxlite {

// The target's logit and its derivative with respect to the cosine.
struct MarginTarget {
  double logit = 0, slope = 0;
};

struct MarginLogsumexpParams {
  double factor = 1, angle = 0, distance = 0, scale = 1;
  MX_FIELDS(
      MarginLogsumexpParams,
      MX_FIELD(
          factor,
          "Margin at `position`: its cosine cos(t) becomes cos(factor * t + angle) - distance."),
      MX_FIELD(angle, "Term of the margin; see factor."),
      MX_FIELD(distance, "Term of the margin; see factor."),
      MX_FIELD(scale, "Factor of all cosines after the margin is applied."))
  MX_HOST_DEVICE MarginTarget target(double cosine) const {
    if (factor == 1 && angle == 0) return {scale * (cosine - distance), scale};
    constexpr double kLargest = 1 - 1e-6;  // the derivative of arccos is infinite at 1 and -1
    double t = cosine;
    if (t > kLargest) t = kLargest;
    if (t < -kLargest) t = -kLargest;
    const double slope = t == cosine ? scale * factor : 0;
    t = std::acos(t);
    return {scale * (std::cos(factor * t + angle) - distance),
            slope * std::sin(factor * t + angle) / std::sin(t)};
  }
};

}  // namespace mxlite
