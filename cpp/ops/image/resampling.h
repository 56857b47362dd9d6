// Separable resizing: every pixel along an axis is a weighted sum of a few pixels. As in OpenCV,
// the outer edges of both sizes are aligned. Border pixels are repeated.
#pragma once
#include <cmath>
#include <cstdint>

#include "cpp/base/host_device.h"

namespace mxlite::resampling {

// Values are those of OpenCV and MXNet. kAreaEnlarging is OpenCV's result for kArea if one side
// grows: sharp steps between pixels.
enum class Interpolation {
  kNearest = 0,
  kBilinear = 1,
  kBicubic = 2,
  kArea = 3,
  kLanczos = 4,
  kAreaEnlarging = 5,
};

inline Interpolation resolve(Interpolation kind, bool enlarges) {
  return kind == Interpolation::kArea && enlarges ? Interpolation::kAreaEnlarging : kind;
}

MX_HOST_DEVICE inline float cubic(float x) {  // Keys' kernel with a = -0.75, as in OpenCV
  constexpr float a = -0.75f;
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

MX_HOST_DEVICE inline float lanczos(float x) {
  constexpr float kPi = 3.14159265358979f;
  x = std::fabs(x) * kPi;
  if (x < 1e-6f) return 1;
  return x < 4 * kPi ? std::sin(x) / x * std::sin(x / 4) / (x / 4) : 0;
}

// Returns the number of pixels of `from` from which a pixel of `to` is computed.
MX_HOST_DEVICE inline int64_t count_taps(Interpolation kind, int64_t from, int64_t to) {
  switch (kind) {
    case Interpolation::kNearest:
      return 1;
    case Interpolation::kBilinear:
    case Interpolation::kAreaEnlarging:
      return 2;
    case Interpolation::kBicubic:
      return 4;
    case Interpolation::kLanczos:
      return 8;
    default:
      return to < from ? from / to + 2 : 2;
  }
}

// The pixel at or before the position of output `o`, and the fraction of the distance to the next
// pixel.
struct Place {
  int64_t pixel;
  float fraction;
};

MX_HOST_DEVICE inline Place place_of(Interpolation kind, int64_t o, int64_t from, int64_t to) {
  const double scale = 1 / (static_cast<double>(to) / static_cast<double>(from));
  if (kind == Interpolation::kAreaEnlarging) {
    const auto pixel = static_cast<int64_t>(std::floor(static_cast<double>(o) * scale));
    const auto past =
        static_cast<float>(static_cast<double>(o + 1) - static_cast<double>(pixel + 1) / scale);
    return {pixel, past <= 0 ? 0 : past - std::floor(past)};
  }
  const auto center = static_cast<float>((static_cast<double>(o) + 0.5) * scale - 0.5);
  const float below = std::floor(center);
  return {static_cast<int64_t>(below), center - below};
}

// Two source pixels and their weights in units of 1/2048, for integer arithmetic on uint8 as in
// OpenCV.
struct FixedTap {
  int64_t first, second;
  int32_t weight[2];
};

MX_HOST_DEVICE inline FixedTap fixed_tap(int64_t first, int64_t second, float fraction) {
  constexpr float kOne = 2048;
  return {first,
          second,
          {static_cast<int32_t>(std::nearbyint((1 - fraction) * kOne)),
           static_cast<int32_t>(std::nearbyint(fraction * kOne))}};
}

// Beyond the left and right border, the second pixel is omitted.
MX_HOST_DEVICE inline FixedTap column_tap(const Place& place, int64_t from) {
  if (place.pixel < 0) return fixed_tap(0, 0, 0);
  if (place.pixel >= from - 1) return fixed_tap(from - 1, from - 1, 0);
  return fixed_tap(place.pixel, place.pixel + 1, place.fraction);
}

// Above and below the image, the border row is repeated, with unchanged weights.
MX_HOST_DEVICE inline FixedTap row_tap(const Place& place, int64_t from) {
  const int64_t last = from - 1, pixel = place.pixel;
  return fixed_tap(pixel < 0      ? 0
                   : pixel < last ? pixel
                                  : last,
                   pixel < last ? pixel + 1 : last, place.fraction);
}

// The sum of two pixels of a row, in units of 1/128, fits into 16 bits. For the sum of two rows,
// the upper halves are added.
MX_HOST_DEVICE inline int32_t along_row(const FixedTap& t, uint8_t first, uint8_t second) {
  return (first * t.weight[0] + second * t.weight[1]) >> 4;
}
MX_HOST_DEVICE inline uint8_t along_column(const FixedTap& t, int32_t above, int32_t below) {
  const int32_t value = (((above * t.weight[0]) >> 16) + ((below * t.weight[1]) >> 16) + 2) >> 2;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// Returns whether uint8 is resized with the taps above. Halving uses means of four pixels instead.
MX_HOST_DEVICE inline bool is_fixed(Interpolation kind) {
  return kind == Interpolation::kBilinear || kind == Interpolation::kAreaEnlarging;
}
inline bool halves(Interpolation kind, int64_t from_width, int64_t from_height, int64_t to_width,
                   int64_t to_height) {
  return (is_fixed(kind) || kind == Interpolation::kArea) && from_width == 2 * to_width &&
         from_height == 2 * to_height;
}

// Describes how one axis with `to` pixels is computed from an axis with `from` pixels: `taps` input
// indices and weights per output.
struct AxisWeights {
  int64_t from, to, taps;
  int64_t* index;
  float* weight;
};

MX_HOST_DEVICE inline void fill_area(int64_t o, double scale, const AxisWeights& w) {
  const double begin = static_cast<double>(o) * scale, end = begin + scale;
  const auto first = static_cast<int64_t>(begin);
  for (int64_t t = 0; t < w.taps; ++t) {
    const auto left = static_cast<double>(first + t);
    const double covered = (end < left + 1 ? end : left + 1) - (begin > left ? begin : left);
    w.index[o * w.taps + t] = first + t < w.from ? first + t : w.from - 1;
    w.weight[o * w.taps + t] = covered > 1e-9 ? static_cast<float>(covered / scale) : 0.0f;
  }
}

// Writes the input indices and weights of output `o`.
MX_HOST_DEVICE inline void fill_weights(Interpolation kind, int64_t o, const AxisWeights& w) {
  const double scale = static_cast<double>(w.from) / static_cast<double>(w.to);
  int64_t* const index = w.index + o * w.taps;
  float* const weight = w.weight + o * w.taps;
  if (kind == Interpolation::kNearest) {
    const double inverse = static_cast<double>(w.to) / static_cast<double>(w.from);
    const auto nearest = static_cast<int64_t>(static_cast<double>(o) * (1 / inverse));
    index[0] = nearest < w.from ? nearest : w.from - 1;
    weight[0] = 1;
    return;
  }
  if (kind == Interpolation::kArea && w.to < w.from) return fill_area(o, scale, w);
  if (kind == Interpolation::kAreaEnlarging) {
    const Place place = place_of(kind, o, w.from, w.to);
    index[0] = place.pixel < w.from ? place.pixel : w.from - 1;
    index[1] = place.pixel + 1 < w.from ? place.pixel + 1 : w.from - 1;
    weight[0] = 1 - place.fraction;
    weight[1] = place.fraction;
    return;
  }
  const double center = (static_cast<double>(o) + 0.5) * scale - 0.5;
  const auto base = static_cast<int64_t>(std::floor(center));
  float sum = 0;
  for (int64_t t = 0; t < w.taps; ++t) {
    const int64_t i = base - w.taps / 2 + 1 + t;
    const auto distance = static_cast<float>(center - static_cast<double>(i));
    index[t] = i < 0 ? 0 : i < w.from ? i : w.from - 1;
    weight[t] = kind == Interpolation::kBicubic   ? cubic(distance)
                : kind == Interpolation::kLanczos ? lanczos(distance)
                                                  : 1 - std::fabs(distance);
    sum += weight[t];
  }
  for (int64_t t = 0; t < w.taps; ++t) weight[t] /= sum;
}

}  // namespace mxlite::resampling
