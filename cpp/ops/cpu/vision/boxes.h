// Areas and overlaps of boxes, computed with the same operations as in 1.x, because rounding
// decides between equal candidates. Files that include this header are compiled without fused
// multiply-add.
#pragma once
#include "cpp/ops/vision/box.h"

namespace mxlite::cpu {

// One side of a box as an interval.
template <class T>
struct Interval {
  T low, high;
};

template <BoxFormat kFormat, class T>
Interval<T> interval(T first, T second) {
  if constexpr (kFormat == BoxFormat::kCorner) return {first, second};
  const T half = second / 2;
  return {first - half, first + half};
}

// Returns the length of the intersection, or 0.
template <class T>
T common_length(Interval<T> a, Interval<T> b) {
  const T low = a.low > b.low ? a.low : b.low;
  const T high = a.high < b.high ? a.high : b.high;
  const T length = high - low;
  return length > 0 ? length : T(0);
}

// Returns the area, 0 if width or height is negative.
template <class T>
T area(T width, T height) {
  return width < 0 || height < 0 ? T(0) : width * height;
}

template <class T>
struct Box {
  Interval<T> x, y;
  T area;
};

template <BoxFormat kFormat, class T, class S>
Box<T> load_box(const S* from) {
  const T a = static_cast<T>(from[0]), b = static_cast<T>(from[1]);
  const T c = static_cast<T>(from[2]), d = static_cast<T>(from[3]);
  const bool corner = kFormat == BoxFormat::kCorner;
  return {interval<kFormat>(a, c), interval<kFormat>(b, d),
          corner ? area(c - a, d - b) : area(c, d)};
}

}  // namespace mxlite::cpu
