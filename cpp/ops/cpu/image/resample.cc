// Every output row and column is a weighted sum of a few input rows and columns. The width is
// resized first, into a float image (double for double images), then the height.
#include "cpp/ops/cpu/image/resample.h"

#include "cpp/ops/cpu/image/pixel.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

using resampling::along_column;
using resampling::along_row;
using resampling::AxisWeights;
using resampling::column_tap;
using resampling::count_taps;
using resampling::fill_weights;
using resampling::FixedTap;
using resampling::place_of;
using resampling::row_tap;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void resample_image(const T* in, const ImageView& from, T* out, const ImageView& to,
                    const AxisWeights& columns, const AxisWeights& rows, Wide<T>* wide) {
  const int64_t row = to.width * from.channels;
  parallel_for(from.height, row * columns.taps, [&](int64_t y) {
    const T* const line = in + y * from.width * from.channels;
    Wide<T>* const result = wide + y * row;
    for (int64_t x = 0; x < to.width; ++x)
      for (int64_t c = 0; c < from.channels; ++c) {
        Wide<T> sum = 0;
        for (int64_t t = 0; t < columns.taps; ++t)
          sum +=
              columns.weight[x * columns.taps + t] *
              static_cast<Wide<T>>(line[columns.index[x * columns.taps + t] * from.channels + c]);
        result[x * from.channels + c] = sum;
      }
  });
  parallel_for(to.height, row * rows.taps, [&](int64_t y) {
    for (int64_t x = 0; x < row; ++x) {
      Wide<T> sum = 0;
      for (int64_t t = 0; t < rows.taps; ++t)
        sum += rows.weight[y * rows.taps + t] * wide[rows.index[y * rows.taps + t] * row + x];
      out[y * row + x] = to_pixel<T>(sum);
    }
  });
}

void halve(const uint8_t* in, const ImageView& from, uint8_t* out, const ImageView& to) {
  const int64_t channels = from.channels, row = to.width * channels;
  parallel_for(to.height, row, [&](int64_t y) {
    const uint8_t* const above = in + 4 * y * row;
    const uint8_t* const below = above + 2 * row;
    for (int64_t x = 0; x < to.width; ++x)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t at = 2 * x * channels + c, next = at + channels;
        const int sum = above[at] + above[next] + below[at] + below[next];
        out[y * row + x * channels + c] = static_cast<uint8_t>((sum + 2) >> 2);
      }
  });
}

void resample_image(const uint8_t* in, const ImageView& from, uint8_t* out, const ImageView& to,
                    const FixedTap* columns, const FixedTap* rows, int16_t* wide) {
  const int64_t channels = from.channels, row = to.width * channels;
  parallel_for(from.height, 2 * row, [&](int64_t y) {
    const uint8_t* const line = in + y * from.width * channels;
    int16_t* const result = wide + y * row;
    for (int64_t x = 0; x < to.width; ++x) {
      const FixedTap t = columns[x];
      const uint8_t* const first = line + t.first * channels;
      const uint8_t* const second = line + t.second * channels;
      for (int64_t c = 0; c < channels; ++c)
        result[x * channels + c] = static_cast<int16_t>(along_row(t, first[c], second[c]));
    }
  });
  parallel_for(to.height, row, [&](int64_t y) {
    const FixedTap t = rows[y];
    const int16_t* const above = wide + t.first * row;
    const int16_t* const below = wide + t.second * row;
    for (int64_t x = 0; x < row; ++x) out[y * row + x] = along_column(t, above[x], below[x]);
  });
}

// Resizes uint8 images with integer arithmetic: the width into a 16-bit image, then the height.
// Results equal OpenCV's bit for bit for bilinear interpolation, enlarging area interpolation, and
// halving by area. Returns false for other cases and then does not write `out`.
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

}  // namespace

void resample(KernelContext& ctx, Interpolation kind, const TensorRef& in, const ImageView& from,
              const TensorRef& out, const ImageView& to) {
  if (out.size() == 0) return;
  kind = resampling::resolve(kind, to.width > from.width || to.height > from.height);
  if (in.dtype == DType::kUInt8 && resample_fixed_point(ctx, kind, in, from, out, to)) return;
  AxisWeights columns{from.width, to.width, count_taps(kind, from.width, to.width)};
  AxisWeights rows{from.height, to.height, count_taps(kind, from.height, to.height)};
  const int64_t column_taps = columns.taps * to.width, row_taps = rows.taps * to.height;
  const int64_t taps = column_taps + row_taps, wide_size = from.height * to.width * from.channels;
  const size_t wide_bytes = in.dtype == DType::kFloat64 ? sizeof(double) : sizeof(float);
  auto* const memory = static_cast<std::byte*>(
      ctx.scratch(static_cast<size_t>(taps) * (sizeof(int64_t) + sizeof(float)) +
                  static_cast<size_t>(wide_size) * wide_bytes));
  columns.index = reinterpret_cast<int64_t*>(memory);
  rows.index = columns.index + column_taps;
  auto* const wide = reinterpret_cast<std::byte*>(rows.index + row_taps);
  columns.weight = reinterpret_cast<float*>(wide + static_cast<size_t>(wide_size) * wide_bytes);
  rows.weight = columns.weight + column_taps;
  for (const AxisWeights& axis : {columns, rows})
    for (int64_t o = 0; o < axis.to; ++o) fill_weights(kind, o, axis);
  dispatch_pixel(in.dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < from.count; ++i)
      resample_image(in.as<T>() + i * from.height * from.width * from.channels, from,
                     out.as<T>() + i * to.height * to.width * to.channels, to, columns, rows,
                     reinterpret_cast<Wide<T>*>(wide));
  });
}

}  // namespace mxlite::cpu
