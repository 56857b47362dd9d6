// Shared by Winograd convolutions and their weight gradients: tiles of 6 x 6 pixels, their places
// in memory and the transforms, for AVX-512. Only winograd*.cc include this.
#pragma once
#include <immintrin.h>

#include <algorithm>

#include "cpp/ops/cpu/onednn/winograd.h"

namespace mxlite::onednn::winograd {

constexpr int64_t kLane = 16;   // floats of a register
constexpr int64_t kPanel = 32;  // filters of one product
constexpr int kPoints = 36;     // products per tile
constexpr int kMostRows = 14;   // 14 x 2 sums, 2 weights and a factor fill the 32 registers
constexpr int64_t kSkew = 16;   // keeps the 36 slabs from falling on the same cache sets

struct Tile {
  int64_t image, row, column;  // position of the first output pixel
};
inline Tile tile_at(const WinogradProblem& p, int64_t index) {
  const int64_t across = p.tiles_across(), down = p.tiles_down();
  return {index / (across * down), index / across % down * p.tile_outputs(),
          index % across * p.tile_outputs()};
}

// Strides in floats: channels-last, or in blocks of 16 channels.
struct PixelStrides {
  int64_t image, row, pixel, block;  // distances of neighbours; block: 16 channels
};
inline PixelStrides pixels_of(bool blocked, int64_t height, int64_t width, int64_t channels) {
  const int64_t image = height * width * channels;
  return blocked ? PixelStrides{image, width * kLane, kLane, height * width * kLane}
                 : PixelStrides{image, width * channels, channels, kLane};
}
inline PixelStrides data_pixels(const WinogradProblem& p) {
  return pixels_of(p.data_blocked, p.height, p.width, p.channels);
}
inline PixelStrides output_pixels(const WinogradProblem& p) {
  return pixels_of(p.output_blocked, p.out_height(), p.out_width(), p.filters);
}

struct IndexRange {
  int64_t first, last;
};
inline IndexRange share(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

inline size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
// Loops over registers must be unrolled early, or the registers live in memory.
#define MX_UNROLL _Pragma("GCC unroll 36")

inline __m512 set(float v) { return _mm512_set1_ps(v); }
inline __m512 madd(__m512 a, float b, __m512 c) { return _mm512_fmadd_ps(a, set(b), c); }
inline __m512 add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
inline __m512 sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }

// One dimension of the data transform: six values to six, interpolation points 0, 1, -1, 2, -2 and
// infinity.
inline void transform_data(const __m512 (&d)[6], __m512 (&v)[6]) {
  const __m512 a = madd(d[2], -4, d[4]), b = madd(d[1], -4, d[3]);
  const __m512 c = sub(d[4], d[2]), e = sub(d[3], d[1]);
  v[0] = madd(d[0], 4, madd(d[2], -5, d[4]));
  v[1] = add(a, b);
  v[2] = sub(a, b);
  v[3] = madd(e, 2, c);
  v[4] = madd(e, -2, c);
  v[5] = madd(d[1], 4, madd(d[3], -5, d[5]));
}

inline void transform_product(const __m512 (&m)[6], __m512 (&y)[4]) {
  const __m512 a = add(m[1], m[2]), b = sub(m[1], m[2]);
  const __m512 c = add(m[3], m[4]), e = sub(m[3], m[4]);
  y[0] = add(add(m[0], a), c);
  y[1] = madd(e, 2, b);
  y[2] = madd(c, 4, a);
  y[3] = add(madd(e, 8, b), m[5]);
}

inline void transform_product(const __m512 (&m)[6], __m512 (&y)[2]) {
  y[0] = add(add(add(m[0], m[1]), m[2]), add(m[3], m[4]));
  y[1] = add(madd(sub(m[3], m[4]), 2, sub(m[1], m[2])), m[5]);
}

// Transposed forms of transform_product: the gradient of the outputs to that of the products.
inline void transform_gradient(const __m512 (&y)[4], __m512 (&m)[6]) {
  const __m512 even = add(y[0], y[2]), odd = add(y[1], y[3]);
  const __m512 wide_even = madd(y[2], 4, y[0]);
  const __m512 wide_odd = madd(y[3], 8, _mm512_mul_ps(y[1], set(2)));
  m[0] = y[0];
  m[1] = add(even, odd);
  m[2] = sub(even, odd);
  m[3] = add(wide_even, wide_odd);
  m[4] = sub(wide_even, wide_odd);
  m[5] = y[3];
}

inline void transform_gradient(const __m512 (&y)[2], __m512 (&m)[6]) {
  m[0] = y[0];
  m[1] = add(y[0], y[1]);
  m[2] = sub(y[0], y[1]);
  m[3] = madd(y[1], 2, y[0]);
  m[4] = madd(y[1], -2, y[0]);
  m[5] = y[1];
}

// The weights' polynomial at the points, over the products of the points' distances.
inline void transform_weight(const __m512 (&g)[3], __m512 (&u)[6]) {
  const __m512 outer = add(g[0], g[2]), wide = madd(g[2], 4, g[0]);
  u[0] = _mm512_mul_ps(g[0], set(1.0f / 4));
  u[1] = _mm512_mul_ps(add(outer, g[1]), set(-1.0f / 6));
  u[2] = _mm512_mul_ps(sub(outer, g[1]), set(-1.0f / 6));
  u[3] = _mm512_mul_ps(madd(g[1], 2, wide), set(1.0f / 24));
  u[4] = _mm512_mul_ps(madd(g[1], -2, wide), set(1.0f / 24));
  u[5] = g[2];
}

inline void transform_weight(const __m512 (&g)[5], __m512 (&u)[6]) {
  const __m512 even = add(add(g[0], g[2]), g[4]), odd = add(g[1], g[3]);
  const __m512 wide_even = madd(g[4], 16, madd(g[2], 4, g[0]));
  const __m512 wide_odd = madd(g[3], 8, _mm512_mul_ps(g[1], set(2)));
  u[0] = _mm512_mul_ps(g[0], set(1.0f / 4));
  u[1] = _mm512_mul_ps(add(even, odd), set(-1.0f / 6));
  u[2] = _mm512_mul_ps(sub(even, odd), set(-1.0f / 6));
  u[3] = _mm512_mul_ps(add(wide_even, wide_odd), set(1.0f / 24));
  u[4] = _mm512_mul_ps(sub(wide_even, wide_odd), set(1.0f / 24));
  u[5] = g[4];
}

// Transposed forms of transform_weight: gradients at the points to those of the weights.
template <int kKernel>
inline void transform_weight_gradient(const __m512 (&u)[6], __m512 (&g)[kKernel]) {
  const __m512 a = _mm512_mul_ps(add(u[1], u[2]), set(-1.0f / 6));
  const __m512 b = _mm512_mul_ps(sub(u[1], u[2]), set(-1.0f / 6));
  const __m512 c = _mm512_mul_ps(add(u[3], u[4]), set(1.0f / 24));
  const __m512 e = _mm512_mul_ps(sub(u[3], u[4]), set(1.0f / 24));
  g[0] = madd(u[0], 1.0f / 4, add(a, c));
  g[1] = madd(e, 2, b);
  g[2] = madd(c, 4, a);
  if constexpr (kKernel == 5) {
    g[3] = madd(e, 8, b);
    g[4] = madd(c, 16, a);
  }
  g[kKernel - 1] = add(g[kKernel - 1], u[5]);
}

// 16 channels of the tile whose first pixel is `top`, `left`: into the 36 slabs.
inline void transform_tile_data(const float* image, const PixelStrides& at,
                                const WinogradProblem& p, int64_t top, int64_t left, bool inside,
                                float* out, int64_t slab) {
  __m512 half[6][6];
  for (int i = 0; i < 6; ++i) {
    __m512 d[6];
    const float* const row = image + (top + i) * at.row + left * at.pixel;
    if (inside) {
      MX_UNROLL for (int j = 0; j < 6; ++j) d[j] = _mm512_loadu_ps(row + j * at.pixel);
    } else {
      const bool row_inside = top + i >= 0 && top + i < p.height;
      MX_UNROLL for (int j = 0; j < 6; ++j) d[j] = row_inside && left + j >= 0 && left + j < p.width
                                                       ? _mm512_loadu_ps(row + j * at.pixel)
                                                       : _mm512_setzero_ps();
    }
    transform_data(d, half[i]);
  }
  MX_UNROLL for (int j = 0; j < 6; ++j) {
    const __m512 column[6] = {half[0][j], half[1][j], half[2][j],
                              half[3][j], half[4][j], half[5][j]};
    __m512 v[6];
    transform_data(column, v);
    MX_UNROLL for (int i = 0; i < 6; ++i) _mm512_storeu_ps(out + (i * 6 + j) * slab, v[i]);
  }
}

#pragma GCC pop_options

// Tile t of a block (tile `index` of all): its 6 x 6 pixels, `channels` of them, into the slabs.
inline void transform_tile(const WinogradProblem& p, const float* data, int64_t index, int64_t t,
                           int64_t slab, float* slabs) {
  const Tile tile = tile_at(p, index);
  const PixelStrides at = data_pixels(p);
  const int64_t top = tile.row - p.pad_height, left = tile.column - p.pad_width;
  const float* const image = data + tile.image * at.image;
  const bool inside = top >= 0 && left >= 0 && top + 6 <= p.height && left + 6 <= p.width;
  for (int64_t c = 0; c < p.channels; c += kLane)
    transform_tile_data(image + c / kLane * at.block, at, p, top, left, inside,
                        slabs + t * p.channels + c, slab);
}

}  // namespace mxlite::onednn::winograd
