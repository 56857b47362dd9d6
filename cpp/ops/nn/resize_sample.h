// Input positions and weights of bilinear resizing, for all devices.
#pragma once
#include <cstdint>

#include "cpp/base/host_device.h"

namespace mxlite {

// The two input positions next to output position i along an axis, and the weight of the second.
struct ResizeSample {
  int64_t first, second;
  double weight;

  MX_HOST_DEVICE ResizeSample(int64_t i, int64_t size, int64_t out_size, bool align_corners) {
    double at = 0;
    if (align_corners) {
      if (out_size > 1)
        at = static_cast<double>(i) * static_cast<double>(size - 1) /
             static_cast<double>(out_size - 1);
    } else {
      at = (static_cast<double>(i) + 0.5) * static_cast<double>(size) /
               static_cast<double>(out_size) -
           0.5;
      if (at < 0) at = 0;
    }
    const auto below = static_cast<int64_t>(at);
    first = below < size - 1 ? below : size - 1;
    second = first + 1 < size ? first + 1 : size - 1;
    weight = at - static_cast<double>(first);
  }
  // Returns the weight of input position r.
  MX_HOST_DEVICE double weight_of(int64_t r) const {
    return (first == r ? 1 - weight : 0) + (second == r ? weight : 0);
  }
};

}  // namespace mxlite
