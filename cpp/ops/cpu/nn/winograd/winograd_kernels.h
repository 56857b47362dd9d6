// The vector kernels of Winograd convolutions and of their weight gradients, one table per
// instruction set. winograd.cc and winograd_weight_grad.cc loop over tiles and threads.
#pragma once
#include "cpp/ops/cpu/nn/winograd/winograd.h"

namespace mxlite::cpu {

constexpr int kPoints = 36;           // number of products per tile
constexpr int64_t kFilterBlock = 16;  // number of adjacent filters in packed weights
constexpr int64_t kSkew = 16;  // additional stride, so that the 36 slabs do not share cache sets

// Arrays of 36 slabs contain [tiles][channels] or [tiles][filters] each; `slab` is the distance
// between slabs in floats. `index` is a tile's number in the problem, `t` its number in a block.
struct WinogradKernels {
  int64_t most_rows;         // number of rows of a slab that one product keeps in registers
  int64_t panel;             // number of filters that one product computes
  int64_t worthwhile_tiles;  // value of winograd_least_tiles()
  // Number of tiles that are transformed before they are multiplied: as many as fit into
  // `bytes`, but between least_tiles and most_tiles. With few channels, `bytes` stay in the L2
  // cache.
  struct BlockSize {
    int64_t bytes, least_tiles, most_tiles;
  } forward, weight_grad;

  // Transforms all channels of a tile of the data.
  void (*transform_tile)(const WinogradProblem& p, const float* data, int64_t index, int64_t t,
                         int64_t slab, float* slabs);
  // Transforms kFilterBlock filters for the channels [first, last).
  void (*transform_weights)(const WinogradProblem& p, const float* weight, float* out,
                            int64_t filter, int64_t first, int64_t last);
  // Computes one of the 36 products: (tiles x channels) times (channels x filters).
  void (*multiply_slab)(const WinogradProblem& p, const float* data, const float* weight,
                        float* product, int64_t tiles);
  // Converts the products of a tile to output pixels.
  void (*finish_tile)(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                      int64_t slab, const float* slabs);

  // Transforms a tile of the output gradient and adds the tile's sum to `bias` unless that pointer
  // is null.
  void (*transform_output_grad)(const WinogradProblem& p, const float* grad, int64_t index,
                                int64_t t, int64_t slab, float* slabs, float* bias);
  // For one of the 36 products: multiplies `data` by a panel of filters of `grad`, and adds the
  // result to that panel of `sums`, or stores the result there if `first` is true.
  void (*accumulate_panel)(const WinogradProblem& p, const float* data, const float* grad,
                           float* sums, int64_t panel, int64_t tiles, bool first);
  // Converts the sums of kFilterBlock filters for the channels [first, last) to weights.
  void (*finish_weights)(const WinogradProblem& p, const float* sums, float* weight, int64_t filter,
                         int64_t first, int64_t last);
};

const WinogradKernels& winograd_kernels();
namespace avx2 {
extern const WinogradKernels kWinogradKernels;
}
namespace avx512 {
extern const WinogradKernels kWinogradKernels;
}

struct IndexRange {
  int64_t first, last;
};
inline IndexRange share(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

inline size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace mxlite::cpu
