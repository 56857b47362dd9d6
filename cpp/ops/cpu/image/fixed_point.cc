// First along the width into an image of 16 bits, then along the height.
#include "cpp/ops/cpu/image/fixed_point.h"

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/strided_copy.h"

namespace mxlite::cpu {
namespace {

using resampling::along_column;
using resampling::along_row;
using resampling::column_tap;
using resampling::FixedTap;
using resampling::Interpolation;
using resampling::place_of;
using resampling::row_tap;

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
                    const FixedTap* columns, const FixedTap* rows, int16_t* wide) {
  const int64_t channels = from.channels, row = to.width * channels;
  const bool parallel = from.height * row > kParallelElements;
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < from.height; ++y) {
    const uint8_t* const line = in + y * from.width * channels;
    int16_t* const result = wide + y * row;
    for (int64_t x = 0; x < to.width; ++x) {
      const FixedTap t = columns[x];
      const uint8_t* const first = line + t.first * channels;
      const uint8_t* const second = line + t.second * channels;
      for (int64_t c = 0; c < channels; ++c)
        result[x * channels + c] = static_cast<int16_t>(along_row(t, first[c], second[c]));
    }
  }
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < to.height; ++y) {
    const FixedTap t = rows[y];
    const int16_t* const above = wide + t.first * row;
    const int16_t* const below = wide + t.second * row;
    for (int64_t x = 0; x < row; ++x) out[y * row + x] = along_column(t, above[x], below[x]);
  }
}

}  // namespace

bool resample_fixed_point(KernelContext& ctx, Interpolation kind, const TensorRef& in,
                          const ImageView& from, const TensorRef& out, const ImageView& to) {
  const int64_t in_size = from.height * from.width * from.channels;
  const int64_t out_size = to.height * to.width * to.channels;
  if (resampling::halves(kind, from.width, from.height, to.width, to.height)) {
    for (int64_t i = 0; i < from.count; ++i)
      halve(in.as<uint8_t>() + i * in_size, from, out.as<uint8_t>() + i * out_size, to);
    return true;
  }
  if (!resampling::is_fixed(kind)) return false;
  const int64_t taps = to.width + to.height, wide = from.height * to.width * from.channels;
  auto* const memory = static_cast<std::byte*>(ctx.scratch(
      static_cast<size_t>(taps) * sizeof(FixedTap) + static_cast<size_t>(wide) * sizeof(int16_t)));
  auto* const columns = reinterpret_cast<FixedTap*>(memory);
  FixedTap* const rows = columns + to.width;
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
