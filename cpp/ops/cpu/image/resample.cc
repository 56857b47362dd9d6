// Every output row and column is a weighted sum of a few input rows and columns: first along the
// width into a float image, then along the height.
#include "cpp/ops/cpu/image/resample.h"

#include <cmath>
#include <numbers>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/image/pixel.h"
#include "cpp/ops/cpu/strided_copy.h"

namespace mxlite::cpu {
namespace {

float cubic(float x) {  // Keys' kernel with a = -0.75, as OpenCV
  constexpr float a = -0.75f;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

float lanczos(float x) {
  x = std::abs(x) * std::numbers::pi_v<float>;
  if (x < 1e-6f) return 1;
  return x < 4 * std::numbers::pi_v<float> ? std::sin(x) / x * std::sin(x / 4) / (x / 4) : 0;
}

// How one axis of `from` pixels makes one of `to`: `taps` input indices and weights per output.
struct AxisWeights {
  int64_t taps;
  int64_t* index;
  float* weight;
};

int64_t count_taps(Interpolation kind, int64_t from, int64_t to) {
  switch (kind) {
    case Interpolation::kNearest:
      return 1;
    case Interpolation::kBilinear:
      return 2;
    case Interpolation::kBicubic:
      return 4;
    case Interpolation::kLanczos:
      return 8;
    default:
      return to < from ? from / to + 2 : 2;
  }
}

void fill_area(int64_t o, double scale, int64_t from, AxisWeights& w) {
  const double begin = static_cast<double>(o) * scale, end = begin + scale;
  const auto first = static_cast<int64_t>(begin);
  for (int64_t t = 0; t < w.taps; ++t) {
    const auto left = static_cast<double>(first + t);
    const double covered = std::min(end, left + 1) - std::max(begin, left);
    w.index[o * w.taps + t] = std::min(first + t, from - 1);
    w.weight[o * w.taps + t] = covered > 1e-9 ? static_cast<float>(covered / scale) : 0.0f;
  }
}

void fill_weights(Interpolation kind, int64_t from, int64_t to, AxisWeights& w) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t o = 0; o < to; ++o) {
    int64_t* const index = w.index + o * w.taps;
    float* const weight = w.weight + o * w.taps;
    if (kind == Interpolation::kNearest) {
      index[0] = std::min(static_cast<int64_t>(static_cast<double>(o) * scale), from - 1);
      weight[0] = 1;
      continue;
    }
    if (kind == Interpolation::kArea && to < from) {
      fill_area(o, scale, from, w);
      continue;
    }
    // Enlarging by area is bilinear, as in OpenCV.
    const double center = (static_cast<double>(o) + 0.5) * scale - 0.5;
    const auto base = static_cast<int64_t>(std::floor(center));
    float sum = 0;
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t i = base - w.taps / 2 + 1 + t;
      const auto distance = static_cast<float>(center - static_cast<double>(i));
      index[t] = std::clamp<int64_t>(i, 0, from - 1);
      weight[t] = kind == Interpolation::kBicubic   ? cubic(distance)
                  : kind == Interpolation::kLanczos ? lanczos(distance)
                                                    : 1 - std::abs(distance);
      sum += weight[t];
    }
    for (int64_t t = 0; t < w.taps; ++t) weight[t] /= sum;
  }
}

template <class T>
void resample_image(const T* in, const ImageView& from, T* out, const ImageView& to,
                    const AxisWeights& columns, const AxisWeights& rows, float* wide) {
  const int64_t row = to.width * from.channels;
  const bool parallel = from.height * row > kParallelElements;
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < from.height; ++y) {
    const T* const line = in + y * from.width * from.channels;
    float* const result = wide + y * row;
    for (int64_t x = 0; x < to.width; ++x)
      for (int64_t c = 0; c < from.channels; ++c) {
        float sum = 0;
        for (int64_t t = 0; t < columns.taps; ++t)
          sum += columns.weight[x * columns.taps + t] *
                 static_cast<float>(line[columns.index[x * columns.taps + t] * from.channels + c]);
        result[x * from.channels + c] = sum;
      }
  }
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int64_t y = 0; y < to.height; ++y)
    for (int64_t x = 0; x < row; ++x) {
      float sum = 0;
      for (int64_t t = 0; t < rows.taps; ++t)
        sum += rows.weight[y * rows.taps + t] * wide[rows.index[y * rows.taps + t] * row + x];
      out[y * row + x] = to_pixel<T>(sum);
    }
}

}  // namespace

void resample(KernelContext& ctx, Interpolation kind, const TensorRef& in, const ImageView& from,
              const TensorRef& out, const ImageView& to) {
  if (out.size() == 0) return;
  AxisWeights columns{count_taps(kind, from.width, to.width), nullptr, nullptr};
  AxisWeights rows{count_taps(kind, from.height, to.height), nullptr, nullptr};
  const int64_t column_taps = columns.taps * to.width, row_taps = rows.taps * to.height;
  const int64_t taps = column_taps + row_taps, wide_size = from.height * to.width * from.channels;
  auto* const memory = static_cast<std::byte*>(
      ctx.scratch(static_cast<size_t>(taps) * (sizeof(int64_t) + sizeof(float)) +
                  static_cast<size_t>(wide_size) * sizeof(float)));
  columns.index = reinterpret_cast<int64_t*>(memory);
  rows.index = columns.index + column_taps;
  columns.weight = reinterpret_cast<float*>(rows.index + row_taps);
  rows.weight = columns.weight + column_taps;
  float* const wide = rows.weight + row_taps;
  fill_weights(kind, from.width, to.width, columns);
  fill_weights(kind, from.height, to.height, rows);
  dispatch_pixel(in.dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < from.count; ++i)
      resample_image(in.as<T>() + i * from.height * from.width * from.channels, from,
                     out.as<T>() + i * to.height * to.width * to.channels, to, columns, rows, wide);
  });
}

}  // namespace mxlite::cpu
