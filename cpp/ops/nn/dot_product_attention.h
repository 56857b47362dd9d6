// softmax(scale * query key^T + mask) value, computed without storing the scores. Shapes: query
// (batch, heads, q_length, d), key (batch, key_heads, k_length, d), value (batch, key_heads,
// k_length, dv); head h attends to key head h / (heads / key_heads). Backward recomputes the
// forward from the hidden outputs: each row's log-sum-exp and the state of the random generator.
#pragma once
#include <cmath>
#include <optional>

#include "cpp/core/random.h"
#include "cpp/ops/attr.h"

namespace mxlite {

// Scores <= kMaskedScore are masked out; the output of a row that is all masked is zero.
constexpr double kMaskedScore = -1e30;

// Also the params of `_dot_product_attention_backward(output_grad, query, key, value, output,
// log_sum, random_state[, mask][, length])`, where dropout is 0 unless forward was training.
struct AttentionParams {
  bool causal = false;
  std::optional<double> scale;
  float dropout = 0;
  bool use_mask = false, use_length = false;
  MX_FIELDS(AttentionParams,
            MX_FIELD(causal,
                     "Whether query i ignores keys after i + k_length - q_length, so that the last "
                     "query sees all keys."),
            MX_FIELD(scale,
                     "Factor of the products of queries and keys; None is 1 / sqrt(head_size)."),
            MX_FIELD(dropout, "Probability that an attention weight is set to 0 in training.")
                .between(0, 1),
            MX_FIELD(use_mask, "Whether attention_mask, which is added to the scores, is given."),
            MX_FIELD(use_length, "Whether length is given."))
  int optional_inputs() const { return (use_mask ? 1 : 0) + (use_length ? 1 : 0); }
  double scale_of(int64_t head_size) const {
    return scale.value_or(1 / std::sqrt(static_cast<double>(head_size > 0 ? head_size : 1)));
  }
};

// Params of `_dot_product_attention_dropout(random_state, query, key, value[, mask][, length])`,
// which returns the dropout factors (0 or 1 / (1 - p)) of an attention call's weights.
struct AttentionDropoutParams {
  Shape shape;  // (batch, heads, q_length, k_length)
  float p = 0;
  DType dtype = DType::kFloat32;
  bool causal = false, use_mask = false, use_length = false;
  MX_FIELDS(AttentionDropoutParams, MX_REQUIRED_FIELD(shape, "Shape of the weights."),
            MX_FIELD(p, "Probability that an element is set to 0.").between(0, 1),
            MX_FIELD(dtype, "dtype of the factors."), MX_FIELD(causal, "As in the call."),
            MX_FIELD(use_mask, "As in the call."), MX_FIELD(use_length, "As in the call."))
};

// Random bits of the attention weight (row, key): each row has one counter; 64 keys use 16 streams
// of four words, in an order that lets loops over keys vectorize.
namespace attention_dropout {

constexpr int64_t kStreams = 16, kKeys = 4 * kStreams;

MX_HOST_DEVICE inline uint32_t bits(RandomState state, int64_t row, int64_t key) {
  const int64_t stream = key / kKeys * kStreams + key % kStreams;
  return philox(state.seed, state.offset + static_cast<uint64_t>(row),
                static_cast<uint64_t>(stream))[static_cast<size_t>(key % kKeys / kStreams)];
}
MX_HOST_DEVICE inline bool keeps(uint32_t bits, float p) { return to_uniform(bits) >= p; }
MX_HOST_DEVICE inline float kept_factor(float p) { return 1 / (1 - p); }
MX_HOST_DEVICE inline float factor(uint32_t bits, float p) {
  return keeps(bits, p) ? kept_factor(p) : 0;
}

}  // namespace attention_dropout

}  // namespace mxlite
