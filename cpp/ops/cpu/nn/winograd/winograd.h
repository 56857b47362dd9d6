// 3 x 3 and 5 x 5 convolutions of stride 1 by Winograd's minimal filtering (Lavin and Gray, CVPR
// 2016). F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5) share tiles of 6 x 6 pixels and need 36 products where
// the direct form needs 144 and 100. Supports float32 with AVX-512 or AVX2. oneDNN 3 has no such
// kernel for channels-last data.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite::cpu {

struct WinogradProblem {
  int64_t batch = 0, height = 0, width = 0;
  int64_t channels = 0, filters = 0;  // multiples of 16
  int64_t pad_height = 0, pad_width = 0;
  int kernel = 3;  // 3 or 5
  // True if data and output consist of blocks of 16 channels (AVX2: 8) instead of being
  // channels-last.
  bool data_blocked = false, output_blocked = false;
  bool rotated = false;  // true for the data gradient, which uses forward's weight rotated by 180
                         // degrees
  int threads = 1;       // maximum; determines the size of the scratch memory
  int64_t out_height() const { return height + 2 * pad_height - kernel + 1; }
  int64_t out_width() const { return width + 2 * pad_width - kernel + 1; }
  int64_t tile_outputs() const { return 7 - kernel; }  // outputs of a tile in one dimension
  int64_t tiles_down() const { return (out_height() + tile_outputs() - 1) / tile_outputs(); }
  int64_t tiles_across() const { return (out_width() + tile_outputs() - 1) / tile_outputs(); }
  int64_t tiles() const { return batch * tiles_down() * tiles_across(); }
};

struct WinogradArgs {
  const float* data;
  // Packed [filters / 16][channels][kernel][kernel][16], or if rotated [channels][filters /
  // 16][kernel][kernel][16]. Null if `transformed` is set.
  const float* weight;
  const float* transformed;  // result of winograd_transform, or null to transform in every call
  const float* bias;         // null if there is no bias
  float* output;
  bool add, relu;  // add: output += its previous value; relu: then max(output, 0)
};

// Returns the number of tiles from which Winograd is faster even if every call transforms the
// weights, or reads and writes the sums of their gradients: 48 with AVX-512, 32 with AVX2.
int64_t winograd_least_tiles();

// Returns the number of threads that the problem's work justifies.
int winograd_threads(const WinogradProblem& p);

size_t winograd_weight_bytes(int64_t channels, int64_t filters);
// Transforms all weights, packed as above, in parallel.
void winograd_transform(int64_t channels, int64_t filters, int kernel, const float* weight,
                        float* transformed);
size_t winograd_scratch_bytes(const WinogradProblem& p, bool transformed);
void winograd_convolution(const WinogradProblem& p, const WinogradArgs& args, void* scratch);

// Operands for the gradients of weight and bias; `p` is the problem of forward.
struct WinogradGradArgs {
  const float *data, *output_grad;
  float* weight_grad;  // [filters / 16][channels][kernel][kernel][16]
  float* bias_grad;    // null if there is no bias
};
size_t winograd_weight_grad_scratch_bytes(const WinogradProblem& p);
void winograd_weight_grad(const WinogradProblem& p, const WinogradGradArgs& args, void* scratch);

}  // namespace mxlite::cpu
