#include "cpp/ops/nn/attention_problem.h"

#include "cpp/base/env.h"
#include "cpp/base/str.h"

namespace mxlite {
namespace {

constexpr int64_t kVector = 8;      // 16-bit floats per vector load
constexpr int64_t kMostHead = 256;  // the largest head size on any device

}  // namespace

std::string AttentionProblem::text() const {
  const auto steps = [](const char* name, const Steps& s) {
    return str(" ", name, " ", s[0], "x", s[1], "x", s[2]);
  };
  std::string mask;
  if (use_mask) {
    mask = " mask ";
    for (const bool repeats : mask_repeats) mask += repeats ? '1' : 'n';
  }
  return str("attention ", backward ? "backward" : "forward", " ", dtype_name(dtype), " batch ",
             batch, " heads ", heads, "/", key_heads, " queries ", q_length, "x", d, " keys ",
             k_length, "x", dv, " scale ", scale, causal ? " causal" : "",
             use_length ? " length" : "", mask, dropout > 0 ? str(" dropout ", dropout) : "",
             deterministic ? " deterministic" : "", steps("query", query), steps("key", key),
             steps("value", value), backward ? steps("output_grad", output_grad) : "");
}

size_t AttentionProblemHash::operator()(const AttentionProblem& p) const {
  uint64_t hash = 0;
  const auto mix = [&](int64_t v) {
    hash ^= static_cast<uint64_t>(v) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  };
  mix(static_cast<int64_t>(p.dtype));
  mix(p.backward + 2 * p.causal + 4 * p.use_length + 8 * p.use_mask);
  for (const int64_t v : {p.batch, p.heads, p.key_heads, p.q_length, p.k_length, p.d, p.dv}) mix(v);
  for (const auto* steps : {&p.query, &p.key, &p.value, &p.output_grad})
    for (const int64_t v : *steps) mix(v);
  return hash;
}

AttentionProblem describe_attention(const AttentionParams& p, bool backward, float dropout,
                                    DType dtype, const Shape& query, const Shape& key,
                                    const Shape& value, const Shape* mask) {
  static const bool deterministic = env_int("MXNET_ENFORCE_DETERMINISM", 0) != 0;
  AttentionProblem q;
  q.backward = backward;
  q.dtype = dtype;
  q.batch = query[0];
  q.heads = query[1];
  q.key_heads = key[1];
  q.q_length = query[2];
  q.k_length = key[2];
  q.d = query[3];
  q.dv = value[3];
  q.scale = p.scale_of(q.d);
  q.dropout = dropout;
  q.causal = p.causal && q.q_length > 1;  // a single query attends to all keys
  q.use_length = p.use_length;
  q.use_mask = mask != nullptr;
  q.deterministic = deterministic;
  if (mask)
    for (int i = 0; i < 4; ++i) {
      const int axis = mask->ndim() - 4 + i;
      q.mask_repeats[static_cast<size_t>(i)] = axis < 0 || (*mask)[axis] == 1;
    }
  q.query = AttentionProblem::contiguous(q.heads, q.q_length, q.d);
  q.key = AttentionProblem::contiguous(q.key_heads, q.k_length, q.d);
  q.value = AttentionProblem::contiguous(q.key_heads, q.k_length, q.dv);
  if (backward) q.output_grad = AttentionProblem::contiguous(q.heads, q.q_length, q.dv);
  return q;
}

const char* why_not_cudnn(const AttentionProblem& p) {
  static const bool wanted = env_int("MXLITE_CUDNN_ATTENTION", 1) != 0;
  if (!wanted) return "MXLITE_CUDNN_ATTENTION=0";
  if (!is_half(p.dtype)) return "dtype must be float16 or bfloat16";
  if (p.d % kVector != 0 || p.dv % kVector != 0) return "head size must be a multiple of 8";
  if (p.d > kMostHead || p.dv > kMostHead) return "head size must be at most 256";
  if (p.q_length == 1 && p.k_length == 1) return "one query and one key";
  if (p.dropout >= 1) return "dropout of everything";
  if (p.causal && p.q_length > p.k_length) return "causal with more queries than keys";
  // cuDNN aligns the last query with each sample's last valid key; the operator aligns it with the
  // array's last key.
  if (p.causal && p.q_length != p.k_length && (p.use_length || p.use_mask || p.dropout > 0))
    return "causal with fewer queries than keys together with length, mask or dropout";
  if (p.use_mask && p.mask_repeats[3] && p.k_length > 1) return "one mask value for all keys";
  // The gradient of the mask needs the dropout factors, which cuDNN does not return. Masks that are
  // the same for all heads express padding or causality and need no gradient.
  if (p.use_mask && p.dropout > 0 && !p.mask_repeats[1])
    return "dropout together with a mask that differs between heads";
  return nullptr;
}

std::array<int64_t, 4> mask_shape(const AttentionProblem& p) {
  return {p.mask_repeats[0] ? 1 : p.batch, p.mask_repeats[1] ? 1 : p.heads,
          p.mask_repeats[2] ? 1 : p.q_length, p.k_length};
}

AttentionProblem::Steps mask_steps(const AttentionProblem& p) {
  const auto shape = mask_shape(p);
  const int64_t row = (p.k_length + kVector - 1) / kVector * kVector;
  return AttentionProblem::contiguous(shape[1], shape[2], row);
}

}  // namespace mxlite
