#include "cpp/ops/cpu/onednn/winograd.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/onednn/winograd_tiles.h"

namespace mxlite::onednn {
namespace {

using namespace winograd;  // NOLINT: the shared half of this file

// Transformed data and products of a block of tiles; with few channels they stay in the
// second-level cache, with many the weights should be read seldom.
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
    const int64_t panel =
        p.rotated ? c * (p.filters / kLane) + filter / kLane : filter / kLane * p.channels + c;
    const float* const w = weight + panel * kLane * kKernel * kKernel;
    const int last_tap = p.rotated ? kKernel * kKernel - 1 : 0;
    __m512 half[kKernel][6];
    MX_UNROLL for (int i = 0; i < kKernel; ++i) {
      __m512 row[kKernel];
      MX_UNROLL for (int j = 0; j < kKernel; ++j) row[j] =
          _mm512_loadu_ps(w + std::abs(i * kKernel + j - last_tap) * kLane);
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

template <int kOutputs>
void finish_tile(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                 const Block& block, const float* slabs) {
  const Tile tile = tile_at(p, index);
  const int64_t rows = std::min<int64_t>(kOutputs, p.out_height() - tile.row);
  const int64_t columns = std::min<int64_t>(kOutputs, p.out_width() - tile.column);
  const PixelStrides place = output_pixels(p);
  float* const first =
      args.output + tile.image * place.image + tile.row * place.row + tile.column * place.pixel;
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
          float* const pixel = first + i * place.row + j * place.pixel + k / kLane * place.block;
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

void transform_share(const WinogradProblem& p, const float* weight, float* out, int64_t part,
                     int64_t parts) {
  // Units of 16 filters x 16 channels, so that few filters still divide well.
  const int64_t across = p.channels / kLane;
  const IndexRange r = share(p.filters / kLane * across, part, parts);
  for (int64_t u = r.first; u < r.last; ++u)
    (p.kernel == 3 ? transform_weights<3>
                   : transform_weights<5>)(p, weight, out, u / across * kLane, u % across * kLane,
                                           (u % across + 1) * kLane);
}

size_t block_bytes(const Block& b) {
  return aligned(static_cast<size_t>(kPoints * (b.data_slab + b.product_slab)) * sizeof(float));
}

}  // namespace

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
    // A shared block: all threads work on all blocks and wait for each other between the steps.
    auto* const data = reinterpret_cast<float*>(slabs + (shared ? 0 : me) * block_bytes(block));
    float* const product = data + kPoints * block.data_slab;
    const IndexRange mine = shared ? IndexRange{0, total} : share(total, me, threads);
    const int64_t part = shared ? me : 0, parts = shared ? threads : 1;
    for (int64_t at = mine.first; at < mine.last; at += block.tiles) {
      const int64_t tiles = std::min(block.tiles, mine.last - at);
      const IndexRange own_tiles = share(tiles, part, parts), points = share(kPoints, part, parts);
      for (int64_t t = own_tiles.first; t < own_tiles.last; ++t)
        transform_tile(p, args.data, at + t, t, block.data_slab, data);
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
