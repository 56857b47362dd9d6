// A point between pixels, for every device: its four neighbors, their weights, and the derivatives
// of the weights.
#pragma once
#include <cmath>
#include <cstdint>

#include "cpp/base/host_device.h"

namespace mxlite::cpu {

// Converts to an integer within [low, high]; NaN gives low.
template <class Acc>
MX_HOST_DEVICE int64_t clamp_index(Acc value, int64_t low, int64_t high) {
  if (!(value > static_cast<Acc>(low))) return low;
  return value >= static_cast<Acc>(high) ? high : static_cast<int64_t>(value);
}

template <class Acc>
struct Neighbours {
  int64_t at[4];   // top left, top right, bottom left, bottom right
  Acc weight[4];   // 0 if the neighbor does not exist
  Acc along_y[4];  // derivatives of the weights
  Acc along_x[4];

  template <class T>
  MX_HOST_DEVICE Acc value(const T* plane) const {
    Acc sum = 0;
    for (int i = 0; i < 4; ++i) sum += weight[i] * static_cast<Acc>(plane[at[i]]);
    return sum;
  }
  // sums[k] += grad * neighbor k. These sums are the part of the derivatives below that depends on
  // the channel.
  template <class T>
  MX_HOST_DEVICE void add_products(const T* plane, Acc grad, Acc* sums) const {
    for (int i = 0; i < 4; ++i) sums[i] += grad * static_cast<Acc>(plane[at[i]]);
  }
  MX_HOST_DEVICE Acc dot(const Acc (&factors)[4], const Acc* sums) const {
    return factors[0] * sums[0] + factors[1] * sums[1] + factors[2] * sums[2] +
           factors[3] * sums[3];
  }
  MX_HOST_DEVICE Acc by_y(const Acc* sums) const { return dot(along_y, sums); }
  MX_HOST_DEVICE Acc by_x(const Acc* sums) const { return dot(along_x, sums); }
  MX_HOST_DEVICE Acc by_factor(const Acc* sums) const { return dot(weight, sums); }
  MX_HOST_DEVICE void scatter(Acc* plane, Acc grad) const {
    for (int i = 0; i < 4; ++i) plane[at[i]] += weight[i] * grad;
  }
};

// One axis of a point: the two neighboring lines and the weight of the second line. `step` is 0
// where moving the point does not change the result.
template <class Acc>
struct AxisPoint {
  int64_t low, high;
  Acc rest, step;
};
template <class Acc>
MX_HOST_DEVICE Neighbours<Acc> combine(const AxisPoint<Acc>& y, const AxisPoint<Acc>& x,
                                       int64_t width) {
  const Acc up = 1 - y.rest, left = 1 - x.rest;
  return {{y.low * width + x.low, y.low * width + x.high, y.high * width + x.low,
           y.high * width + x.high},
          {up * left, up * x.rest, y.rest * left, y.rest * x.rest},
          {-y.step * left, -y.step * x.rest, y.step * left, y.step * x.rest},
          {-x.step * up, x.step * up, -x.step * y.rest, x.step * y.rest}};
}

// Clamps a coordinate, which must not be NaN, to [0, size - 1].
template <class Acc>
MX_HOST_DEVICE AxisPoint<Acc> clamped(Acc at, int64_t size) {
  const Acc last = static_cast<Acc>(size - 1);
  if (at >= last) return {size - 1, size - 1, Acc(0), Acc(0)};
  if (at < 0) return {0, 0, Acc(0), Acc(0)};
  const int64_t low = static_cast<int64_t>(at);
  return {low, low + 1, at - static_cast<Acc>(low), Acc(1)};
}

// Treats the outside of the image as zeros. Requires -1 < y < height and -1 < x <
// width.
template <class Acc>
MX_HOST_DEVICE Neighbours<Acc> zero_padded(Acc y, Acc x, int64_t height, int64_t width) {
  const Acc top = std::floor(y), left = std::floor(x);
  const int64_t y0 = static_cast<int64_t>(top), x0 = static_cast<int64_t>(left);
  const bool rows[2] = {y0 >= 0, y0 + 1 < height}, columns[2] = {x0 >= 0, x0 + 1 < width};
  const Acc fy[2] = {1 - (y - top), y - top}, fx[2] = {1 - (x - left), x - left};
  Neighbours<Acc> n{};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      if (!rows[i] || !columns[j]) continue;
      const int k = 2 * i + j;
      n.at[k] = (y0 + i) * width + x0 + j;
      n.weight[k] = fy[i] * fx[j];
      n.along_y[k] = i == 0 ? -fx[j] : fx[j];
      n.along_x[k] = j == 0 ? -fy[i] : fy[i];
    }
  return n;
}

}  // namespace mxlite::cpu
