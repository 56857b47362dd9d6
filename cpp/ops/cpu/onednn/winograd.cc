#include "cpp/ops/cpu/onednn/winograd.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>

#include "cpp/core/threads.h"

namespace mxlite::onednn {
namespace {

constexpr int64_t kLane = 16;   // floats of a register
constexpr int64_t kPanel = 32;  // filters of one product
constexpr int kPoints = 36;     // products per tile
constexpr int kMostRows = 14;   // 14 x 2 sums, 2 weights and a factor fill the 32 registers
constexpr int64_t kSkew = 16;   // keeps the 36 slabs from falling on the same cache sets
// Transformed data and products of a block of tiles; with few channels they stay in the
// second-level cache, with many the weights want to be read seldom.
constexpr int64_t kBlockBytes = 1 << 20;
constexpr int64_t kLeastTiles = 56, kMostTiles = 224;

// Slabs of one block: [36][tiles][channels] and [36][tiles][filters].
struct Block {
  int64_t tiles;
  int64_t data_slab, product_slab;  // floats
};

Block block_for(const WinogradProblem& p) {
  const int64_t per_tile = kPoints * (p.channels + p.filters) * static_cast<int64_t>(sizeof(float));
  int64_t tiles = std::clamp(kBlockBytes / per_tile, kLeastTiles, kMostTiles);
  tiles = std::min(tiles / kMostRows * kMostRows, p.tiles());
  return {tiles, tiles * p.channels + kSkew, tiles * p.filters + kSkew};
}

// Few tiles: the threads share one block, each taking some of the 36 products.
bool shared_block(const WinogradProblem& p) { return p.tiles() < 2 * kLeastTiles * p.threads; }

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

// Transformed weights: [36][panel of 32 filters][channel][32], the last panel 16 wide if need be.
inline int64_t weight_at(const WinogradProblem& p, int64_t filter, int64_t channel) {
  const int64_t panel = filter / kPanel, width = std::min(kPanel, p.filters - panel * kPanel);
  return panel * kPanel * p.channels + channel * width + filter % kPanel;
}

// 16 filters for channels [first, last).
template <int kKernel>
void transform_weights(const WinogradProblem& p, const float* weight, float* out, int64_t filter,
                       int64_t first, int64_t last) {
  const int64_t slab = p.channels * p.filters;
  for (int64_t c = first; c < last; ++c) {
    const float* const w = weight + (filter * p.channels + c * kLane) * kKernel * kKernel;
    __m512 half[kKernel][6];
    MX_UNROLL for (int i = 0; i < kKernel; ++i) {
      __m512 row[kKernel];
      MX_UNROLL for (int j = 0; j < kKernel; ++j) row[j] =
          _mm512_loadu_ps(w + (i * kKernel + j) * kLane);
      transform_weight(row, half[i]);
    }
    float* const at = out + weight_at(p, filter, c);
    MX_UNROLL for (int j = 0; j < 6; ++j) {
      __m512 column[kKernel], u[6];
      MX_UNROLL for (int i = 0; i < kKernel; ++i) column[i] = half[i][j];
      transform_weight(column, u);
      MX_UNROLL for (int i = 0; i < 6; ++i) _mm512_storeu_ps(at + (i * 6 + j) * slab, u[i]);
    }
  }
}

struct Tile {
  int64_t image, row, column;  // of the first output pixel
};
Tile tile_at(const WinogradProblem& p, int64_t index) {
  const int64_t across = p.tiles_across(), down = p.tiles_down();
  return {index / (across * down), index / across % down * p.tile_outputs(),
          index % across * p.tile_outputs()};
}

// Tile t of the block (tile `index` of all): its 6 x 6 pixels into the 36 slabs.
void transform_tile(const WinogradProblem& p, const float* data, int64_t index, int64_t t,
                    const Block& block, float* slabs) {
  const Tile tile = tile_at(p, index);
  const int64_t top = tile.row - p.pad_height, left = tile.column - p.pad_width;
  const float* const image = data + tile.image * p.height * p.width * p.channels;
  const bool inside = top >= 0 && left >= 0 && top + 6 <= p.height && left + 6 <= p.width;
  for (int64_t c = 0; c < p.channels; c += kLane) {
    __m512 half[6][6];
    for (int i = 0; i < 6; ++i) {
      __m512 d[6];
      const float* const row = image + ((top + i) * p.width + left) * p.channels + c;
      if (inside) {
        MX_UNROLL for (int j = 0; j < 6; ++j) d[j] = _mm512_loadu_ps(row + j * p.channels);
      } else {
        const bool row_inside = top + i >= 0 && top + i < p.height;
        MX_UNROLL for (int j = 0; j < 6; ++j) d[j] =
            row_inside && left + j >= 0 && left + j < p.width
                ? _mm512_loadu_ps(row + j * p.channels)
                : _mm512_setzero_ps();
      }
      transform_data(d, half[i]);
    }
    float* const at = slabs + t * p.channels + c;
    MX_UNROLL for (int j = 0; j < 6; ++j) {
      const __m512 column[6] = {half[0][j], half[1][j], half[2][j],
                                half[3][j], half[4][j], half[5][j]};
      __m512 v[6];
      transform_data(column, v);
      MX_UNROLL for (int i = 0; i < 6; ++i)
          _mm512_storeu_ps(at + (i * 6 + j) * block.data_slab, v[i]);
    }
  }
}

template <int kOutputs>
void finish_tile(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                 const Block& block, const float* slabs) {
  const Tile tile = tile_at(p, index);
  const int64_t rows = std::min<int64_t>(kOutputs, p.out_height() - tile.row);
  const int64_t columns = std::min<int64_t>(kOutputs, p.out_width() - tile.column);
  float* const first =
      args.output +
      ((tile.image * p.out_height() + tile.row) * p.out_width() + tile.column) * p.filters;
  for (int64_t k = 0; k < p.filters; k += kLane) {
    const float* const at = slabs + t * p.filters + k;
    __m512 half[6][kOutputs];
    MX_UNROLL for (int i = 0; i < 6; ++i) {
      __m512 m[6];
      MX_UNROLL for (int j = 0; j < 6; ++j) m[j] =
          _mm512_loadu_ps(at + (i * 6 + j) * block.product_slab);
      transform_product(m, half[i]);
    }
    const __m512 bias = args.bias ? _mm512_loadu_ps(args.bias + k) : _mm512_setzero_ps();
    MX_UNROLL for (int j = 0; j < kOutputs; ++j) {
      const __m512 column[6] = {half[0][j], half[1][j], half[2][j],
                                half[3][j], half[4][j], half[5][j]};
      __m512 y[kOutputs];
      transform_product(column, y);
      if (j < columns) MX_UNROLL for (int i = 0; i < kOutputs; ++i) {
          if (i >= rows) break;
          float* const pixel = first + (i * p.out_width() + j) * p.filters + k;
          __m512 v = add(y[i], bias);
          if (args.add) v = add(v, _mm512_loadu_ps(pixel));
          if (args.relu) v = _mm512_maskz_max_ps(0xffff, _mm512_setzero_ps(), v);  // NaN stays
          _mm512_storeu_ps(pixel, v);
        }
    }
  }
}

// kRows rows of data (stride channels) times one panel of 16 * kVectors filters.
template <int kRows, int kVectors>
void multiply(const float* data, const float* weight, float* product, int64_t channels,
              int64_t filters) {
  __m512 sum[kRows][kVectors];
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
      _mm512_setzero_ps();
  for (int64_t c = 0; c < channels; ++c) {
    __m512 w[kVectors];
    MX_UNROLL for (int v = 0; v < kVectors; ++v) w[v] =
        _mm512_loadu_ps(weight + (c * kVectors + v) * kLane);
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const __m512 d = _mm512_set1_ps(data[r * channels + c]);
      MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(d, w[v], sum[r][v]);
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(product + r * filters + v * kLane, sum[r][v]);
}

#pragma GCC pop_options

using MultiplyFn = void (*)(const float*, const float*, float*, int64_t, int64_t);
template <int kVectors>
constexpr MultiplyFn kMultiply[kMostRows + 1] = {
    nullptr,
    multiply<1, kVectors>,
    multiply<2, kVectors>,
    multiply<3, kVectors>,
    multiply<4, kVectors>,
    multiply<5, kVectors>,
    multiply<6, kVectors>,
    multiply<7, kVectors>,
    multiply<8, kVectors>,
    multiply<9, kVectors>,
    multiply<10, kVectors>,
    multiply<11, kVectors>,
    multiply<12, kVectors>,
    multiply<13, kVectors>,
    multiply<14, kVectors>,
};

// One of the 36 products: (tiles x channels) times (channels x filters).
void multiply_slab(const WinogradProblem& p, const float* data, const float* weight, float* product,
                   int64_t tiles) {
  const int64_t groups = (tiles + kMostRows - 1) / kMostRows;
  for (int64_t k = 0; k < p.filters; k += kPanel) {
    const auto& fns = p.filters - k >= kPanel ? kMultiply<2> : kMultiply<1>;
    for (int64_t g = 0, t = 0; g < groups; ++g) {
      const int64_t rows = (tiles - t) / (groups - g);
      fns[rows](data + t * p.channels, weight + k * p.channels, product + t * p.filters + k,
                p.channels, p.filters);
      t += rows;
    }
  }
}

struct Range {
  int64_t first, last;
};
Range share(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

void transform_share(const WinogradProblem& p, const float* weight, float* out, int64_t part,
                     int64_t parts) {
  // Units of 16 filters x 16 channels, so that few filters still divide well.
  const int64_t across = p.channels / kLane;
  const Range r = share(p.filters / kLane * across, part, parts);
  for (int64_t u = r.first; u < r.last; ++u)
    (p.kernel == 3 ? transform_weights<3>
                   : transform_weights<5>)(p, weight, out, u / across * kLane, u % across * kLane,
                                           (u % across + 1) * kLane);
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t block_bytes(const Block& b) {
  return aligned(static_cast<size_t>(kPoints * (b.data_slab + b.product_slab)) * sizeof(float));
}

}  // namespace

bool has_winograd() {
  static const bool able = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return able;
}

size_t winograd_weight_bytes(int64_t channels, int64_t filters) {
  return static_cast<size_t>(kPoints * channels * filters) * sizeof(float);
}

void winograd_transform(int64_t channels, int64_t filters, int kernel, const float* weight,
                        float* transformed) {
  const WinogradProblem p{.channels = channels, .filters = filters, .kernel = kernel};
#pragma omp parallel num_threads(cpu_threads())
  transform_share(p, weight, transformed, omp_get_thread_num(), omp_get_num_threads());
}

size_t winograd_scratch_bytes(const WinogradProblem& p, bool transformed) {
  const size_t blocks = shared_block(p) ? 1 : static_cast<size_t>(p.threads);
  return blocks * block_bytes(block_for(p)) +
         (transformed ? 0 : winograd_weight_bytes(p.channels, p.filters));
}

void winograd_convolution(const WinogradProblem& p, const WinogradArgs& args, void* scratch) {
  const Block block = block_for(p);
  auto* const bytes = static_cast<std::byte*>(scratch);
  auto* const own = reinterpret_cast<float*>(bytes);
  const float* const weight = args.transformed ? args.transformed : own;
  std::byte* const slabs =
      bytes + (args.transformed ? 0 : winograd_weight_bytes(p.channels, p.filters));
  const int64_t weight_slab = p.channels * p.filters, total = p.tiles();
  const bool shared = shared_block(p);
  const auto finish = p.kernel == 3 ? finish_tile<4> : finish_tile<2>;
#pragma omp parallel num_threads(p.threads)
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    if (!args.transformed) {
      transform_share(p, args.weight, own, me, threads);
#pragma omp barrier
    }
    // A shared block: everybody works on all blocks and meets between the steps.
    auto* const data = reinterpret_cast<float*>(slabs + (shared ? 0 : me) * block_bytes(block));
    float* const product = data + kPoints * block.data_slab;
    const Range mine = shared ? Range{0, total} : share(total, me, threads);
    const int64_t part = shared ? me : 0, parts = shared ? threads : 1;
    for (int64_t at = mine.first; at < mine.last; at += block.tiles) {
      const int64_t tiles = std::min(block.tiles, mine.last - at);
      const Range own_tiles = share(tiles, part, parts), points = share(kPoints, part, parts);
      for (int64_t t = own_tiles.first; t < own_tiles.last; ++t)
        transform_tile(p, args.data, at + t, t, block, data);
      if (shared) {
#pragma omp barrier
      }
      for (int64_t x = points.first; x < points.last; ++x)
        multiply_slab(p, data + x * block.data_slab, weight + x * weight_slab,
                      product + x * block.product_slab, tiles);
      if (shared) {
#pragma omp barrier
      }
      for (int64_t t = own_tiles.first; t < own_tiles.last; ++t)
        finish(p, args, at + t, t, block, product);
    }
  }
}

}  // namespace mxlite::onednn
