// The vector kernels of Winograd convolutions and of their weight gradients, one table per
// instruction set. winograd.cc and winograd_weight_grad.cc loop over tiles and threads.
#pragma once
#include "cpp/ops/cpu/nn/winograd/winograd.h"

namespace mxlite::cpu {

constexpr int kPoints = 36;           // products per tile
constexpr int64_t kFilterBlock = 16;  // filters of packed weights that follow each other
constexpr int64_t kSkew = 16;         // extra stride: the 36 slabs must not share cache sets

// Arrays of 36 slabs hold [tiles][channels] or [tiles][filters] each; `slab` is the distance of
// two slabs in floats. `index` counts the tiles of the problem, `t` those of a block.
struct WinogradKernels {
  int64_t most_rows;         // rows of a slab that one product keeps in registers
  int64_t panel;             // filters of one product
  int64_t worthwhile_tiles;  // winograd_least_tiles()
  // Bounds of the tiles that are transformed before they are multiplied: bytes of their slabs,
  // which stay in the second-level cache if channels are few, and a least and a greatest number.
  struct BlockSize {
    int64_t bytes, least_tiles, most_tiles;
  } forward, weight_grad;

  // Transforms all channels of a tile of the data.
  void (*transform_tile)(const WinogradProblem& p, const float* data, int64_t index, int64_t t,
                         int64_t slab, float* slabs);
  // Transforms kFilterBlock filters for the channels [first, last).
  void (*transform_weights)(const WinogradProblem& p, const float* weight, float* out,
                            int64_t filter, int64_t first, int64_t last);
  // One of the 36 products: (tiles x channels) times (channels x filters).
  void (*multiply_slab)(const WinogradProblem& p, const float* data, const float* weight,
                        float* product, int64_t tiles);
  // Turns the products of a tile into output pixels.
  void (*finish_tile)(const WinogradProblem& p, const WinogradArgs& args, int64_t index, int64_t t,
                      int64_t slab, const float* slabs);

  // Transforms a tile of the output gradient and adds its sum to bias unless that is null.
  void (*transform_output_grad)(const WinogradProblem& p, const float* grad, int64_t index,
                                int64_t t, int64_t slab, float* slabs, float* bias);
  // Adds one panel of filters of one of the 36 products to its sums; `first`: sets them.
  void (*accumulate_panel)(const WinogradProblem& p, const float* data, const float* grad,
                           float* sums, int64_t panel, int64_t tiles, bool first);
  // Turns the sums of kFilterBlock filters for the channels [first, last) into weights.
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
