// Weights are 2048ths. Along the width a row becomes sums of two pixels in 128ths, which fit 16
// bits; along the height the upper halves of two products are added up.
#include "cpp/ops/cpu/image/fixed_point.h"

#include <algorithm>
#include <cmath>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/strided_copy.h"

namespace mxlite::cpu {
namespace {

using resampling::Interpolation;
using resampling::Place;
using resampling::place_of;

// One pixel of the result along an axis: two of the source and their weights.
struct Tap {
  int64_t first, second;
  int32_t weight[2];
};

Tap tap(int64_t first, int64_t second, float fraction) {
  constexpr float kOne = 2048;
  return {first,
          second,
          {static_cast<int32_t>(std::lrintf((1 - fraction) * kOne)),
           static_cast<int32_t>(std::lrintf(fraction * kOne))}};
}

// Beyond the left and right border the second pixel is left out.
Tap column_tap(const Place& place, int64_t from) {
  if (place.pixel < 0) return tap(0, 0, 0);
  if (place.pixel >= from - 1) return tap(from - 1, from - 1, 0);
  return tap(place.pixel, place.pixel + 1, place.fraction);
}

// Above and below the image its border row repeats; the weights stay.
Tap row_tap(const Place& place, int64_t from) {
  return tap(std::clamp<int64_t>(place.pixel, 0, from - 1),
             std::clamp<int64_t>(place.pixel + 1, 0, from - 1), place.fraction);
}

void halve(const uint8_t* in, const ImageView& from, uint8_t* out, const ImageView& to) {
  const int64_t channels = from.channels, row = to.width * channels;
  const bool parallel = to.height * row > kParallelElements;
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < to.height; ++y) {
    const uint8_t* const above = in + 4 * y * row;
    const uint8_t* const below = above + 2 * row;
    for (int64_t x = 0; x < to.width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = 2 * x * channels + c, next = at + channels;
        const int sum = above[at] + above[next] + below[at] + below[next];
        out[y * row + x * channels + c] = static_cast<uint8_t>((sum + 2) >> 2);
      }
  }
}

void resample_image(const uint8_t* in, const ImageView& from, uint8_t* out, const ImageView& to,
                    const Tap* columns, const Tap* rows, int16_t* wide) {
  const int64_t channels = from.channels, row = to.width * channels;
  const bool parallel = from.height * row > kParallelElements;
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < from.height; ++y) {
    const uint8_t* const line = in + y * from.width * channels;
    int16_t* const result = wide + y * row;
    for (int64_t x = 0; x < to.width; ++x) {
      const Tap t = columns[x];
      const uint8_t* const first = line + t.first * channels;
      const uint8_t* const second = line + t.second * channels;
      for (int64_t c = 0; c < channels; ++c)
        result[x * channels + c] =
            static_cast<int16_t>((first[c] * t.weight[0] + second[c] * t.weight[1]) >> 4);
    }
  }
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < to.height; ++y) {
    const Tap t = rows[y];
    const int16_t* const above = wide + t.first * row;
    const int16_t* const below = wide + t.second * row;
    for (int64_t x = 0; x < row; ++x) {
      const int value =
          (((above[x] * t.weight[0]) >> 16) + ((below[x] * t.weight[1]) >> 16) + 2) >> 2;
      out[y * row + x] = static_cast<uint8_t>(std::clamp(value, 0, 255));
    }
  }
}

}  // namespace

bool resample_fixed_point(KernelContext& ctx, Interpolation kind, const TensorRef& in,
                          const ImageView& from, const TensorRef& out, const ImageView& to) {
  const int64_t in_size = from.height * from.width * from.channels;
  const int64_t out_size = to.height * to.width * to.channels;
  const bool linear = kind == Interpolation::kBilinear || kind == Interpolation::kAreaEnlarging;
  if ((linear || kind == Interpolation::kArea) && from.width == 2 * to.width &&
      from.height == 2 * to.height) {
    for (int64_t i = 0; i < from.count; ++i)
      halve(in.as<uint8_t>() + i * in_size, from, out.as<uint8_t>() + i * out_size, to);
    return true;
  }
  if (!linear) return false;
  const int64_t taps = to.width + to.height, wide = from.height * to.width * from.channels;
  auto* const memory = static_cast<std::byte*>(ctx.scratch(
      static_cast<size_t>(taps) * sizeof(Tap) + static_cast<size_t>(wide) * sizeof(int16_t)));
  auto* const columns = reinterpret_cast<Tap*>(memory);
  Tap* const rows = columns + to.width;
  for (int64_t x = 0; x < to.width; ++x)
    columns[x] = column_tap(place_of(kind, x, from.width, to.width), from.width);
  for (int64_t y = 0; y < to.height; ++y)
    rows[y] = row_tap(place_of(kind, y, from.height, to.height), from.height);
  for (int64_t i = 0; i < from.count; ++i)
    resample_image(in.as<uint8_t>() + i * in_size, from, out.as<uint8_t>() + i * out_size, to,
                   columns, rows, reinterpret_cast<int16_t*>(rows + to.height));
  return true;
}

}  // namespace mxlite::cpu
