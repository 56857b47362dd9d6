// One call of dot-product attention as a library with fused attention sees it, and whether it is
// computed there. Problems are compared and hashed, so that what was built for one is found again.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite {

struct AttentionProblem {
  // Distances in elements between samples, heads and rows; elements of a row are adjacent.
  using Steps = std::array<int64_t, 3>;

  bool backward = false;
  DType dtype = DType::kFloat32;
  int64_t batch = 0, heads = 0, key_heads = 0, q_length = 0, k_length = 0, d = 0, dv = 0;
  double scale = 1;
  float dropout = 0;  // 0 unless training
  bool causal = false;
  bool use_length = false, use_mask = false;
  bool deterministic = false;  // MXNET_ENFORCE_DETERMINISM
  // Whether all samples, heads, queries or keys have the same mask.
  std::array<bool, 4> mask_repeats{};
  Steps query{}, key{}, value{}, output_grad{};

  bool operator==(const AttentionProblem&) const = default;
  // One line.
  std::string text() const;
  // The distances in a contiguous array (batch, count, rows, columns).
  static Steps contiguous(int64_t count, int64_t rows, int64_t columns) {
    return {count * rows * columns, rows * columns, columns};
  }
};

struct AttentionProblemHash {
  size_t operator()(const AttentionProblem& p) const;
};

// The arrays of a call, which a library finds by these numbers. Lengths are int32 (batch,), the
// seed and the offset int64, the mask (batch, heads, q_length, k_length) in memory of mask_steps.
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

// Arrays are contiguous in the result. `mask` is null without one; `dropout` is 0 unless training.
AttentionProblem describe_attention(const AttentionParams& p, bool backward, float dropout,
                                    DType dtype, const Shape& query, const Shape& key,
                                    const Shape& value, const Shape* mask);

// Returns why cuDNN's fused attention does not compute the problem, nullptr if it does. cuDNN may
// still have no plan for it on a device.
const char* why_not_cudnn(const AttentionProblem& p);

// Elements of a packed mask, and the distances in it: rows are padded to whole vectors of 16 bytes,
// and what repeats is stored once.
int64_t mask_size(const AttentionProblem& p);
AttentionProblem::Steps mask_steps(const AttentionProblem& p);

}  // namespace mxlite
