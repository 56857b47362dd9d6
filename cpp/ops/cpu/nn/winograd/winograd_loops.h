// The vector kernels of Winograd convolutions. Included once per instruction set, after
// registers.h.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "cpp/ops/cpu/nn/winograd/winograd_tiles.h"

namespace mxlite::cpu {
namespace {

// The sums, the weights and a factor of one product fill the registers: 14 x 2, 2 and 1 of the 32
// of AVX-512, 6 x 2, 2 and 1 of the 16 of AVX2.
constexpr int kMostRows = MX_WIDE ? 14 : 6;
constexpr int64_t kPanel = 2 * kLane;  // number of filters that one product computes

// Returns the offset in the transformed weights [36][panel of kPanel filters][channel][kPanel]; the
// last panel may have only kFilterBlock filters.
inline int64_t weight_at(const WinogradProblem& p, int64_t filter, int64_t channel) {
  const int64_t panel = filter / kPanel, width = std::min(kPanel, p.filters - panel * kPanel);
  return panel * kPanel * p.channels + channel * width + filter % kPanel;
}

// Transforms kLane filters of one channel.
template <int kKernel>
void transform_weight_tile(const float* weight, bool rotated, float* out, int64_t slab) {
  const int last_tap = rotated ? kKernel * kKernel - 1 : 0;
  Vec half[kKernel][6];
  MX_UNROLL for (int i = 0; i < kKernel; ++i) {
    Vec row[kKernel];
    MX_UNROLL for (int j = 0; j < kKernel; ++j) row[j] =
        load(weight + std::abs(i * kKernel + j - last_tap) * kFilterBlock);
    transform_weight(row, half[i]);
  }
  MX_UNROLL for (int j = 0; j < 6; ++j) {
    Vec column[kKernel], u[6];
    MX_UNROLL for (int i = 0; i < kKernel; ++i) column[i] = half[i][j];
    transform_weight(column, u);
    MX_UNROLL for (int i = 0; i < 6; ++i) store(out + (i * 6 + j) * slab, u[i]);
  }
}

void transform_weights(const WinogradProblem& p, const float* weight, float* out, int64_t filter,
                       int64_t first, int64_t last) {
  const auto transform = p.kernel == 3 ? transform_weight_tile<3> : transform_weight_tile<5>;
  const int64_t block = filter / kFilterBlock, blocks = p.filters / kFilterBlock;
  for (int64_t c = first; c < last; ++c) {
    const int64_t place = p.rotated ? c * blocks + block : block * p.channels + c;
    const float* const w = weight + place * kFilterBlock * p.kernel * p.kernel;
    for (int64_t f = 0; f < kFilterBlock; f += kLane)
      transform(w + f, p.rotated, out + weight_at(p, filter + f, c), p.channels * p.filters);
  }
}

template <int kOutputs>
void finish_outputs(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                    int64_t slab, const float* slabs) {
  const Tile tile = tile_at(p, index);
  const int64_t rows = std::min<int64_t>(kOutputs, p.out_height() - tile.row);
  const int64_t columns = std::min<int64_t>(kOutputs, p.out_width() - tile.column);
  const PixelStrides place = output_pixels(p);
  float* const first =
      args.output + tile.image * place.image + tile.row * place.row + tile.column * place.pixel;
  for (int64_t k = 0; k < p.filters; k += kLane) {
    const float* const at = slabs + t * p.filters + k;
    Vec half[6][kOutputs];
    MX_UNROLL for (int i = 0; i < 6; ++i) {
      Vec m[6];
      MX_UNROLL for (int j = 0; j < 6; ++j) m[j] = load(at + (i * 6 + j) * slab);
      transform_product(m, half[i]);
    }
    const Vec bias = args.bias ? load(args.bias + k) : zero();
    MX_UNROLL for (int j = 0; j < kOutputs; ++j) {
      const Vec column[6] = {half[0][j], half[1][j], half[2][j],
                             half[3][j], half[4][j], half[5][j]};
      Vec y[kOutputs];
      transform_product(column, y);
      if (j < columns) MX_UNROLL for (int i = 0; i < kOutputs; ++i) {
          if (i >= rows) break;
          float* const pixel = first + i * place.row + j * place.pixel + k / kLane * place.block;
          Vec v = add(y[i], bias);
          if (args.add) v = add(v, load(pixel));
          if (args.relu) v = relu(v);
          store(pixel, v);
        }
    }
  }
}

void finish_tile(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                 int64_t slab, const float* slabs) {
  (p.kernel == 3 ? finish_outputs<4> : finish_outputs<2>)(p, args, index, t, slab, slabs);
}

// Multiplies kRows rows of data (stride: channels) by one panel of kLane * kVectors filters.
template <int kRows, int kVectors>
void multiply(const float* data, const float* weight, float* product, int64_t channels,
              int64_t filters) {
  Vec sum[kRows][kVectors];
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
      zero();
  for (int64_t c = 0; c < channels; ++c) {
    Vec w[kVectors];
    MX_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = load(weight + (c * kVectors + v) * kLane);
    MX_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec d = set(data[r * channels + c]);
      MX_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = madd(d, w[v], sum[r][v]);
    }
  }
  MX_UNROLL for (int r = 0; r < kRows; ++r) MX_UNROLL for (int v = 0; v < kVectors; ++v)
      store(product + r * filters + v * kLane, sum[r][v]);
}

using MultiplyFn = void (*)(const float*, const float*, float*, int64_t, int64_t);
template <int kVectors, int... kRows>
constexpr std::array<MultiplyFn, kMostRows + 1> multiply_table(
    std::integer_sequence<int, kRows...>) {
  return {nullptr, multiply<kRows + 1, kVectors>...};
}
template <int kVectors>
constexpr auto kMultiply = multiply_table<kVectors>(std::make_integer_sequence<int, kMostRows>());

void multiply_slab(const WinogradProblem& p, const float* data, const float* weight, float* product,
                   int64_t tiles) {
  const int64_t groups = (tiles + kMostRows - 1) / kMostRows;
  for (int64_t k = 0; k < p.filters; k += kPanel) {
    const auto& fns =
        p.filters - k >= kPanel ? kMultiply<kPanel / kLane> : kMultiply<kFilterBlock / kLane>;
    for (int64_t g = 0, t = 0; g < groups; ++g) {
      const int64_t rows = (tiles - t) / (groups - g);
      fns[rows](data + t * p.channels, weight + k * p.channels, product + t * p.filters + k,
                p.channels, p.filters);
      t += rows;
    }
  }
}

}  // namespace
}  // namespace mxlite::cpu
