// The vector kernels of weight gradients by Winograd's method. Included once per instruction set.
#pragma once
#include "cpp/ops/cpu/nn/winograd/winograd_loops.h"

namespace mxlite::cpu {
namespace {

template <int kOutputs>
void transform_outputs(const WinogradProblem& p, const float* grad, int64_t index, int64_t t,
                       int64_t slab, float* slabs, float* bias) {
  const Tile tile = tile_at(p, index);
  const PixelStrides at = output_pixels(p);
  const int64_t rows = std::min<int64_t>(kOutputs, p.out_height() - tile.row);
  const int64_t columns = std::min<int64_t>(kOutputs, p.out_width() - tile.column);
  const float* const first =
      grad + tile.image * at.image + tile.row * at.row + tile.column * at.pixel;
  for (int64_t k = 0; k < p.filters; k += kLane) {
    const float* const pixel = first + k / kLane * at.block;
    Vec half[kOutputs][6];
    Vec sum = zero();
    MX_UNROLL for (int i = 0; i < kOutputs; ++i) {
      Vec y[kOutputs];
      MX_UNROLL for (int j = 0; j < kOutputs; ++j) {
        y[j] = i < rows && j < columns ? load(pixel + i * at.row + j * at.pixel) : zero();
        sum = add(sum, y[j]);
      }
      transform_gradient(y, half[i]);
    }
    if (bias) store(bias + k, add(load(bias + k), sum));
    float* const out = slabs + t * p.filters + k;
    MX_UNROLL for (int j = 0; j < 6; ++j) {
      Vec column[kOutputs], m[6];
      MX_UNROLL for (int i = 0; i < kOutputs; ++i) column[i] = half[i][j];
      transform_gradient(column, m);
      MX_UNROLL for (int i = 0; i < 6; ++i) store(out + (i * 6 + j) * slab, m[i]);
    }
  }
}

void transform_output_grad(const WinogradProblem& p, const float* grad, int64_t index, int64_t t,
                           int64_t slab, float* slabs, float* bias) {
  (p.kernel == 3 ? transform_outputs<4> : transform_outputs<2>)(p, grad, index, t, slab, slabs,
                                                                bias);
}

// sums[r][v] = [sums[r][v] +] data[t][r] * grad[t][v] over the tiles, for kRows channels and kLane
// * kVectors filters.
template <int kRows, int kVectors>
void accumulate(const float* data, const float* grad, float* sums, int64_t tiles, int64_t channels,
                int64_t filters, bool first) {
  Vec sum[kRows][kVectors];
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
      first ? zero() : load(sums + r * filters + v * kLane);
  for (int64_t t = 0; t < tiles; ++t, data += channels, grad += filters) {
    Vec g[kVectors];
    MX_UNROLL for (int v = 0; v < kVectors; ++v) g[v] = load(grad + v * kLane);
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec d = set(data[r]);
      MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = madd(d, g[v], sum[r][v]);
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v)
      store(sums + r * filters + v * kLane, sum[r][v]);
}

// Converts the sums of kLane filters of one channel to weights.
template <int kKernel>
void finish_weight_tile(const float* sums, int64_t slab, float* weight) {
  Vec half[6][kKernel];
  MX_UNROLL for (int i = 0; i < 6; ++i) {
    Vec row[6];
    MX_UNROLL for (int j = 0; j < 6; ++j) row[j] = load(sums + (i * 6 + j) * slab);
    transform_weight_gradient<kKernel>(row, half[i]);
  }
  MX_UNROLL for (int j = 0; j < kKernel; ++j) {
    Vec g[kKernel];
    const Vec column[6] = {half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]};
    transform_weight_gradient<kKernel>(column, g);
    MX_UNROLL for (int i = 0; i < kKernel; ++i)
        store(weight + (i * kKernel + j) * kFilterBlock, g[i]);
  }
}

void finish_weights(const WinogradProblem& p, const float* sums, float* weight, int64_t filter,
                    int64_t first, int64_t last) {
  const auto finish = p.kernel == 3 ? finish_weight_tile<3> : finish_weight_tile<5>;
  for (int64_t c = first; c < last; ++c) {
    float* const w = weight + (filter * p.channels + c * kFilterBlock) * p.kernel * p.kernel;
    for (int64_t f = 0; f < kFilterBlock; f += kLane)
      finish(sums + c * p.filters + filter + f, p.channels * p.filters, w + f);
  }
}

using AccumulateFn = void (*)(const float*, const float*, float*, int64_t, int64_t, int64_t, bool);
template <int kVectors, int... kRows>
constexpr std::array<AccumulateFn, kMostRows + 1> accumulate_table(
    std::integer_sequence<int, kRows...>) {
  return {nullptr, accumulate<kRows + 1, kVectors>...};
}
template <int kVectors>
constexpr auto kAccumulate =
    accumulate_table<kVectors>(std::make_integer_sequence<int, kMostRows>());

void accumulate_panel(const WinogradProblem& p, const float* data, const float* grad, float* sums,
                      int64_t panel, int64_t tiles, bool first) {
  const int64_t k = panel * kPanel, groups = (p.channels + kMostRows - 1) / kMostRows;
  const auto& fns =
      p.filters - k >= kPanel ? kAccumulate<kPanel / kLane> : kAccumulate<kFilterBlock / kLane>;
  for (int64_t g = 0, c = 0; g < groups; ++g) {
    const int64_t rows = (p.channels - c) / (groups - g);
    fns[rows](data + c, grad + k, sums + c * p.filters + k, tiles, p.channels, p.filters, first);
    c += rows;
  }
}

// Returns `k`, which has the best sizes for an instruction set, with the kernels above added.
constexpr WinogradKernels with_kernels(WinogradKernels k) {
  k.most_rows = kMostRows;
  k.panel = kPanel;
  k.transform_tile = transform_tile;
  k.transform_weights = transform_weights;
  k.multiply_slab = multiply_slab;
  k.finish_tile = finish_tile;
  k.transform_output_grad = transform_output_grad;
  k.accumulate_panel = accumulate_panel;
  k.finish_weights = finish_weights;
  return k;
}

}  // namespace
}  // namespace mxlite::cpu
