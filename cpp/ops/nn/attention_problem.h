// Description of one dot-product attention call for a library with fused attention, and the check
// whether the library supports it. Problems are the keys of a cache of built plans.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite {

struct AttentionProblem {
  // Strides, in elements, of samples, heads and rows. Elements of a row are adjacent.
  using Steps = std::array<int64_t, 3>;

  bool backward = false;
  DType dtype = DType::kFloat32;
  int64_t batch = 0, heads = 0, key_heads = 0, q_length = 0, k_length = 0, d = 0, dv = 0;
  double scale = 1;
  float dropout = 0;  // 0 unless training
  bool causal = false;
  bool use_length = false, use_mask = false;
  bool deterministic = false;  // MXNET_ENFORCE_DETERMINISM
  // Says for each axis (samples, heads, queries, keys) whether the mask is broadcast along it.
  std::array<bool, 4> mask_repeats{};
  Steps query{}, key{}, value{}, output_grad{};

  bool operator==(const AttentionProblem&) const = default;
  // Returns a description in one line.
  std::string text() const;
  // Returns the strides of a contiguous array (batch, count, rows, columns).
  static Steps contiguous(int64_t count, int64_t rows, int64_t columns) {
    return {count * rows * columns, rows * columns, columns};
  }
};

struct AttentionProblemHash {
  size_t operator()(const AttentionProblem& p) const;
};

// Ids by which a library finds the arrays of a call. Lengths are int32 (batch,), seed and offset
// int64, the mask has the shape mask_shape.
enum AttentionTensor : int64_t {
  kAttentionQuery = 1,
  kAttentionKey,
  kAttentionValue,
  kAttentionOutput,
  kAttentionLogSum,
  kAttentionMask,
  kAttentionQueryLengths,
  kAttentionKeyLengths,
  kAttentionSeed,
  kAttentionOffset,
  kAttentionOutputGrad,
  kAttentionQueryGrad,
  kAttentionKeyGrad,
  kAttentionValueGrad
};

// Describes a call on contiguous arrays. `mask` may be null; `dropout` must be 0 unless training.
AttentionProblem describe_attention(const AttentionParams& p, bool backward, float dropout,
                                    DType dtype, const Shape& query, const Shape& key,
                                    const Shape& value, const Shape* mask);

// Returns nullptr if cuDNN's fused attention can compute the problem, else the reason. cuDNN may
// still have no plan for the problem on a device.
const char* why_not_cudnn(const AttentionProblem& p);

// Shape and steps of a packed mask: axes along which the mask repeats have size 1, except the keys,
// and rows are padded to a multiple of 16 bytes.
std::array<int64_t, 4> mask_shape(const AttentionProblem& p);
AttentionProblem::Steps mask_steps(const AttentionProblem& p);

}  // namespace mxlite
