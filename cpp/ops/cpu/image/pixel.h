// Pixels are computed in float, and rounded and clipped to 0..255 when stored as uint8.
#pragma once
#include <algorithm>
#include <cmath>

#include "cpp/core/dtype.h"

namespace mxlite::cpu {

template <class T, class C>
T to_pixel(C value) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(std::clamp(std::nearbyint(value), C{0}, C{255}));
  else
    return static_cast<T>(value);
}

void dispatch_pixel(DType dtype, auto&& fn) {
  if (dtype == DType::kUInt8)
    fn(uint8_t{});
  else
    dispatch_floating("image", dtype, fn);
}

}  // namespace mxlite::cpu
