// The gradient of weights by Winograd's minimal filtering, every step of the forward transposed:
// data and output gradient are transformed tile by tile, 36 products add up over the tiles, and the
// sums become 3 x 3 or 5 x 5 weights at the end.
#include <omp.h>

#include <cstring>

#include "cpp/ops/cpu/onednn/winograd_tiles.h"

namespace mxlite::onednn {
namespace {

using namespace winograd;  // NOLINT: the shared half of this file

// Transformed tiles that one pass over the sums takes: many, because each pass reads and writes
// all sums, but few enough for the second-level cache.
constexpr int64_t kBlockBytes = 3 << 20;
constexpr int64_t kLeastTiles = 48, kMostTiles = 256;

struct Layout {
  int64_t tiles;                 // tiles of a block
  int64_t data_slab, grad_slab;  // floats
  size_t data_at, grad_at, sums_at, bias_at, bytes;
};

Layout layout_for(const WinogradProblem& p) {
  const int64_t per_tile = kPoints * (p.channels + p.filters) * static_cast<int64_t>(sizeof(float));
  Layout l{};
  l.tiles = std::min(std::clamp(kBlockBytes / per_tile, kLeastTiles, kMostTiles), p.tiles());
  l.data_slab = l.tiles * p.channels + kSkew;
  l.grad_slab = l.tiles * p.filters + kSkew;
  const auto room = [&](int64_t floats) {
    const size_t at = l.bytes;
    l.bytes += aligned(static_cast<size_t>(floats) * sizeof(float));
    return at;
  };
  l.data_at = room(kPoints * l.data_slab);
  l.grad_at = room(kPoints * l.grad_slab);
  l.sums_at = room(kPoints * p.channels * p.filters);
  l.bias_at = room(p.threads * p.filters);
  return l;
}

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")

// Tile t of the block (tile `index` of all) of the output gradient; its sum is added to bias.
template <int kOutputs>
void transform_output_grad(const WinogradProblem& p, const float* grad, int64_t index, int64_t t,
                           int64_t slab, float* slabs, float* bias) {
  const Tile tile = tile_at(p, index);
  const PixelStrides at = output_pixels(p);
  const int64_t rows = std::min<int64_t>(kOutputs, p.out_height() - tile.row);
  const int64_t columns = std::min<int64_t>(kOutputs, p.out_width() - tile.column);
  const float* const first =
      grad + tile.image * at.image + tile.row * at.row + tile.column * at.pixel;
  for (int64_t k = 0; k < p.filters; k += kLane) {
    const float* const pixel = first + k / kLane * at.block;
    __m512 half[kOutputs][6];
    __m512 sum = _mm512_setzero_ps();
    MX_UNROLL for (int i = 0; i < kOutputs; ++i) {
      __m512 y[kOutputs];
      MX_UNROLL for (int j = 0; j < kOutputs; ++j) {
        y[j] = i < rows && j < columns ? _mm512_loadu_ps(pixel + i * at.row + j * at.pixel)
                                       : _mm512_setzero_ps();
        sum = add(sum, y[j]);
      }
      transform_gradient(y, half[i]);
    }
    if (bias) _mm512_storeu_ps(bias + k, add(_mm512_loadu_ps(bias + k), sum));
    float* const out = slabs + t * p.filters + k;
    MX_UNROLL for (int j = 0; j < 6; ++j) {
      __m512 column[kOutputs], m[6];
      MX_UNROLL for (int i = 0; i < kOutputs; ++i) column[i] = half[i][j];
      transform_gradient(column, m);
      MX_UNROLL for (int i = 0; i < 6; ++i) _mm512_storeu_ps(out + (i * 6 + j) * slab, m[i]);
    }
  }
}

// sums[r][v] (+)= data[t][r] * grad[t][v] over the tiles: kRows channels, 16 * kVectors filters.
template <int kRows, int kVectors>
void accumulate(const float* data, const float* grad, float* sums, int64_t tiles, int64_t channels,
                int64_t filters, bool first) {
  __m512 sum[kRows][kVectors];
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
      first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * filters + v * kLane);
  for (int64_t t = 0; t < tiles; ++t, data += channels, grad += filters) {
    __m512 g[kVectors];
    MX_UNROLL for (int v = 0; v < kVectors; ++v) g[v] = _mm512_loadu_ps(grad + v * kLane);
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const __m512 d = _mm512_set1_ps(data[r]);
      MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(d, g[v], sum[r][v]);
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(sums + r * filters + v * kLane, sum[r][v]);
}

// Sums of 16 filters for channels [first, last) become weights.
template <int kKernel>
void finish_weights(const WinogradProblem& p, const float* sums, float* weight, int64_t filter,
                    int64_t first, int64_t last) {
  const int64_t slab = p.channels * p.filters;
  for (int64_t c = first; c < last; ++c) {
    const float* const at = sums + c * p.filters + filter;
    __m512 half[6][kKernel];
    MX_UNROLL for (int i = 0; i < 6; ++i) {
      __m512 row[6];
      MX_UNROLL for (int j = 0; j < 6; ++j) row[j] = _mm512_loadu_ps(at + (i * 6 + j) * slab);
      transform_weight_gradient<kKernel>(row, half[i]);
    }
    float* const w = weight + (filter * p.channels + c * kLane) * kKernel * kKernel;
    MX_UNROLL for (int j = 0; j < kKernel; ++j) {
      __m512 g[kKernel];
      const __m512 column[6] = {half[0][j], half[1][j], half[2][j],
                                half[3][j], half[4][j], half[5][j]};
      transform_weight_gradient<kKernel>(column, g);
      MX_UNROLL for (int i = 0; i < kKernel; ++i)
          _mm512_storeu_ps(w + (i * kKernel + j) * kLane, g[i]);
    }
  }
}

#pragma GCC pop_options

using AccumulateFn = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t, bool);
template <int kVectors>
constexpr AccumulateFn kAccumulate[kMostRows + 1] = {
    nullptr,
    accumulate<1, kVectors>,
    accumulate<2, kVectors>,
    accumulate<3, kVectors>,
    accumulate<4, kVectors>,
    accumulate<5, kVectors>,
    accumulate<6, kVectors>,
    accumulate<7, kVectors>,
    accumulate<8, kVectors>,
    accumulate<9, kVectors>,
    accumulate<10, kVectors>,
    accumulate<11, kVectors>,
    accumulate<12, kVectors>,
    accumulate<13, kVectors>,
    accumulate<14, kVectors>,
};

// One panel of filters of one of the 36 products.
void accumulate_panel(const WinogradProblem& p, const float* data, const float* grad, float* sums,
                      int64_t panel, int64_t tiles, bool first) {
  const int64_t k = panel * kPanel, groups = (p.channels + kMostRows - 1) / kMostRows;
  const auto& fns = p.filters - k >= kPanel ? kAccumulate<2> : kAccumulate<1>;
  for (int64_t g = 0, c = 0; g < groups; ++g) {
    const int64_t rows = (p.channels - c) / (groups - g);
    fns[rows](data + c, grad + k, sums + c * p.filters + k, tiles, p.channels, p.filters, first);
    c += rows;
  }
}

}  // namespace

size_t winograd_weight_grad_scratch_bytes(const WinogradProblem& p) { return layout_for(p).bytes; }

void winograd_weight_grad(const WinogradProblem& p, const WinogradGradArgs& args, void* scratch) {
  const Layout l = layout_for(p);
  const auto part = [&](size_t at) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + at);
  };
  float *const data = part(l.data_at), *const grad = part(l.grad_at), *const sums = part(l.sums_at);
  const auto transform = p.kernel == 3 ? transform_output_grad<4> : transform_output_grad<2>;
  const auto finish = p.kernel == 3 ? finish_weights<3> : finish_weights<5>;
  const int64_t slab = p.channels * p.filters, total = p.tiles();
  const int64_t panels = (p.filters + kPanel - 1) / kPanel;
#pragma omp parallel num_threads(p.threads)
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    float* const bias = args.bias_grad ? part(l.bias_at) + me * p.filters : nullptr;
    if (bias) std::fill_n(bias, p.filters, 0.0f);
    const IndexRange units = share(kPoints * panels, me, threads);
    for (int64_t at = 0; at < total; at += l.tiles) {
      const int64_t tiles = std::min(l.tiles, total - at);
      const IndexRange mine = share(tiles, me, threads);
      for (int64_t t = mine.first; t < mine.last; ++t) {
        transform_tile(p, args.data, at + t, t, l.data_slab, data);
        transform(p, args.output_grad, at + t, t, l.grad_slab, grad, bias);
      }
#pragma omp barrier
      for (int64_t u = units.first; u < units.last; ++u) {
        const int64_t x = u / panels;
        accumulate_panel(p, data + x * l.data_slab, grad + x * l.grad_slab, sums + x * slab,
                         u % panels, tiles, at == 0);
      }
#pragma omp barrier
    }
    const int64_t across = p.channels / kLane;
    const IndexRange weights = share(p.filters / kLane * across, me, threads);
    for (int64_t u = weights.first; u < weights.last; ++u)
      finish(p, sums, args.weight_grad, u / across * kLane, u % across * kLane,
             (u % across + 1) * kLane);
    if (args.bias_grad && me == 0)
      for (int64_t k = 0; k < p.filters; ++k) {
        float sum = 0;
        for (int64_t i = 0; i < threads; ++i) sum += part(l.bias_at)[i * p.filters + k];
        args.bias_grad[k] = sum;
      }
  }
}

}  // namespace mxlite::onednn
