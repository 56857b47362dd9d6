#include "cpp/ops/cpu/nn/stem.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

constexpr int64_t kLane = 16;
constexpr int kMostVectors = 4;
// Number of output pixels computed together for 16 * i filters. Their sums fill most of the 32
// registers.
constexpr int kPixels[kMostVectors + 1] = {0, 14, 12, 8, 6};

// Returns the row width of a padded copy of the input rows that one output row reads, with room for
// whole groups of pixels.
int64_t row_width(const StemProblem& p) {
  const int64_t pixels = p.out_width + kPixels[1];
  return std::max(p.width + p.pad[1],
                  (pixels - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilate[1] + 1) +
         kLane;
}

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_UNROLL _Pragma("GCC unroll 16")

// Computes the pixels [x, x + count) of one output row for 16 * kVectors filters, starting at
// filter k.
template <int kVectors>
void pixels(const StemProblem& p, const StemArgs& args, const float* rows, int64_t x, int64_t count,
            int64_t k, float* output) {
  constexpr int kCount = kPixels[kVectors];
  __m512 sum[kCount][kVectors];
  MX_UNROLL for (int v = 0; v < kVectors; ++v) {
    const __m512 start =
        args.bias ? _mm512_loadu_ps(args.bias + k + v * kLane) : _mm512_setzero_ps();
    MX_UNROLL for (int i = 0; i < kCount; ++i) sum[i][v] = start;
  }
  const float* weight = args.weight + k;
  const int64_t width = row_width(p), step = p.stride[1];
  for (int64_t row = 0; row < p.channels * p.kernel[0]; ++row) {
    const float* data = rows + row * width + x * step;
    for (int64_t j = 0; j < p.kernel[1]; ++j, weight += p.filters, data += p.dilate[1]) {
      __m512 w[kVectors];
      MX_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_ps(weight + v * kLane);
      MX_UNROLL for (int i = 0; i < kCount; ++i) {
        const __m512 d = _mm512_set1_ps(data[i * step]);
        MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] =
            _mm512_fmadd_ps(d, w[v], sum[i][v]);
      }
    }
  }
  MX_UNROLL for (int i = 0; i < kCount; ++i) {
    if (i >= count) break;
    MX_UNROLL for (int v = 0; v < kVectors; ++v) {
      __m512 y = sum[i][v];
      if (args.relu) y = _mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), y);  // keeps NaN
      _mm512_storeu_ps(output + (x + i) * p.filters + k + v * kLane, y);
    }
  }
}

#pragma GCC pop_options

using PixelsFn = void (*)(const StemProblem&, const StemArgs&, const float*, int64_t, int64_t,
                          int64_t, float*);
constexpr PixelsFn kFunctions[kMostVectors + 1] = {nullptr, pixels<1>, pixels<2>, pixels<3>,
                                                   pixels<4>};

void copy_rows(const StemProblem& p, const float* image, int64_t y, float* rows) {
  const int64_t width = row_width(p);
  for (int64_t c = 0; c < p.channels; ++c)
    for (int64_t i = 0; i < p.kernel[0]; ++i, rows += width) {
      const int64_t at = y * p.stride[0] - p.pad[0] + i * p.dilate[0];
      if (at < 0 || at >= p.height) {
        std::fill_n(rows, width, 0.0f);
        continue;
      }
      std::fill_n(rows, p.pad[1], 0.0f);
      std::memcpy(rows + p.pad[1], image + (c * p.height + at) * p.width,
                  static_cast<size_t>(p.width) * sizeof(float));
      std::fill(rows + p.pad[1] + p.width, rows + width, 0.0f);
    }
}

int64_t rows_floats(const StemProblem& p) {
  return (p.channels * p.kernel[0] * row_width(p) + kLane - 1) / kLane * kLane;
}

}  // namespace

size_t stem_scratch_bytes(const StemProblem& p) {
  return static_cast<size_t>(rows_floats(p) * p.threads) * sizeof(float);
}

void stem_convolution(const StemProblem& p, const StemArgs& args, void* scratch) {
  const FlushSubnormals flush;
  const auto run = [&](int64_t first, int64_t last, int thread) {
    float* const rows = static_cast<float*>(scratch) + thread * rows_floats(p);
    for (int64_t line = first; line < last; ++line) {
      copy_rows(p, args.data + line / p.out_height * p.channels * p.height * p.width,
                line % p.out_height, rows);
      float* const output = args.output + line * p.out_width * p.filters;
      for (int64_t k = 0; k < p.filters;) {
        const int vectors =
            static_cast<int>(std::min<int64_t>(kMostVectors, (p.filters - k) / kLane));
        for (int64_t x = 0; x < p.out_width; x += kPixels[vectors])
          kFunctions[vectors](p, args, rows, x, p.out_width - x, k, output);
        k += vectors * kLane;
      }
    }
  };
  const int64_t products = p.out_width * p.filters * p.channels * p.kernel[0] * p.kernel[1];
  share_range(p.batch * p.out_height, 1, products / kProductsPerElement, run, p.threads);
}

}  // namespace mxlite::cpu
