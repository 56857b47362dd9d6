#include "cpp/ops/nn/dot_product_attention.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/dot_product_attention_gradient.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kDotProductAttentionOp = "_contrib_dot_product_attention";
constexpr const char* kDotProductAttentionBackward = "_dot_product_attention_backward";
constexpr int kMask = 3;  // index of the optional input mask

void check_heads(const char* input, const TensorSpec& spec, const TensorSpec& query) {
  const Shape &s = spec.shape, &q = query.shape;
  check_same_dtype(kDotProductAttentionOp, input, spec, query.dtype);
  MX_CHECK_SHAPE(s.ndim() == 4, kDotProductAttentionOp, ": ", input,
                 " must have 4 dimensions (batch, heads, length, size), got shape ", s);
  MX_CHECK_SHAPE(may_equal(s[0], q[0]), kDotProductAttentionOp, ": ", input,
                 " must have a batch of ", q[0], " for query of shape ", q, ", got shape ", s);
  MX_CHECK_SHAPE(may_equal(s[1], q[1]) || (s[1] > 0 && q[1] % s[1] == 0), kDotProductAttentionOp,
                 ": the number of heads of ", input, " must be a divisor of the ", q[1],
                 " heads of query, got ", s[1], " in shape ", s);
}

void check_mask(const TensorSpec& mask, const Shape& scores, DType dtype) {
  check_same_dtype(kDotProductAttentionOp, "attention_mask", mask, dtype);
  bool fits = mask.shape.ndim() <= 4;
  const int lead = 4 - mask.shape.ndim();
  for (int i = 0; fits && i < mask.shape.ndim(); ++i)
    fits = mask.shape[i] == 1 || may_equal(mask.shape[i], scores[lead + i]);
  MX_CHECK_SHAPE(
      fits, kDotProductAttentionOp,
      ": attention_mask must have a shape that broadcasts to (batch, heads, q_length, k_length) = ",
      scores, ", got ", mask.shape);
}

Specs infer_dot_product_attention(const AttentionParams& p, std::span<const TensorSpec> in) {
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  check_floating(kDotProductAttentionOp, "query", in[0]);
  MX_CHECK_SHAPE(q.ndim() == 4, kDotProductAttentionOp,
                 ": query must have 4 dimensions (batch, heads, length, size), got shape ", q);
  MX_CHECK_SHAPE(q[3] != 0, kDotProductAttentionOp,
                 ": query must have heads of size 1 or more, got shape ", q);
  check_heads("key", in[1], in[0]);
  check_heads("value", in[2], in[0]);
  MX_CHECK_SHAPE(may_equal(k[3], q[3]), kDotProductAttentionOp, ": key must have heads of size ",
                 q[3], " for query of shape ", q, ", got shape ", k);
  MX_CHECK_SHAPE(may_equal(v[1], k[1]) && may_equal(v[2], k[2]), kDotProductAttentionOp,
                 ": value must have ", k[1], " heads of length ", k[2], " for key of shape ", k,
                 ", got shape ", v);
  MX_CHECK(!p.scale || std::isfinite(*p.scale), kDotProductAttentionOp,
           ": scale must be a finite number, got ", *p.scale);
  if (p.use_mask) check_mask(in[kMask], Shape{q[0], q[1], q[2], k[2]}, in[0].dtype);
  if (p.use_length) {
    const TensorSpec& length = in[in.size() - 1];
    check_param_shape(kDotProductAttentionOp, "length", length, Shape{q[0]}, q);
    MX_CHECK_DTYPE(length.dtype == DType::kInt32 || length.dtype == DType::kInt64,
                   kDotProductAttentionOp, ": length must have dtype int32 or int64, got ",
                   length.dtype);
  }
  const DType sums = in[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int64_t batch = merged(q[0], merged(k[0], v[0]));
  return Specs{TensorSpec{Shape{batch, q[1], q[2], v[3]}, in[0].dtype},
               TensorSpec{Shape{batch, q[1], q[2]}, sums}, TensorSpec{Shape{2}, DType::kInt64}};
}

// The fused backward cannot compute the gradient of the mask, which needs the scores in memory.
std::vector<ValueRef> dot_product_attention_gradient(GradBuilder& g) {
  const auto& p = g.params<AttentionParams>();
  if (p.use_mask && g.needs_grad(kMask)) return attention_composite_gradient(g);
  auto params = std::make_shared<AttentionParams>(p);
  if (!g.training()) params->dropout = 0;
  std::vector<ValueRef> inputs = {g.output_grad(0)};
  for (int i = 0; i < kMask; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 3; ++i) inputs.push_back(g.output(i));
  for (int i = kMask; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  std::vector<ValueRef> grads = g.emit_all(kDotProductAttentionBackward, inputs, std::move(params));
  grads.resize(static_cast<size_t>(g.num_inputs()));
  return grads;
}

}  // namespace

static const Registration dot_product_attention_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<AttentionParams>(kDotProductAttentionOp)
          .doc("Scaled dot-product attention, softmax(scale * query key^T + attention_mask) value, "
               "computed in blocks so that the scores are never stored as a whole. Each sample "
               "uses only its first `length` keys and values (all of them if `length` is larger). "
               "Keys with a score of -1e30 or less are ignored; a query without any other key gets "
               "zeros.")
          .shapes("query: (batch, heads, q_length, head_size), key: (batch, key_heads, k_length, "
                  "head_size), value: (batch, key_heads, k_length, value_size), where key_heads "
                  "divides heads; attention_mask: broadcasts to (batch, heads, q_length, "
                  "k_length); length: "
                  "(batch,) -> (batch, heads, q_length, value_size)")
          .inputs({"query", "key", "value", "attention_mask", "length"})
          .input_count([](const AttentionParams& p) { return kMask + p.optional_inputs(); })
          .outputs(3)
          .visible_outputs(1)
          .infer(infer_dot_product_attention)
          .gradient(dot_product_attention_gradient)
          .composite_gradient(attention_composite_gradient)
          .training_dependent()
          .random([](const AttentionParams& p, std::span<const TensorSpec> out) {
            return p.dropout > 0 ? static_cast<uint64_t>(out[1].shape.size()) : 0;
          })
          .amp(AmpClass::kLowPrecision)
          .symbol({.output_names = {"output"}, .untied_inputs = {3, 4}})
          .types([](const AttentionParams& p, KnownTypes in, KnownTypes) {
            if (p.use_length && !in.back()) in.back() = DType::kInt32;
            if (p.use_mask && !in[kMask]) in[kMask] = in[0];
          }));
  ops.add(OpBuilder<AttentionParams>(kDotProductAttentionBackward)
              .internal()
              .doc("Gradients of _contrib_dot_product_attention.")
              .inputs({"output_grad", "query", "key", "value", "output", "log_sum", "random_state",
                       "attention_mask", "length"})
              .input_count([](const AttentionParams& p) { return 7 + p.optional_inputs(); })
              .outputs(3)
              .infer([](const AttentionParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2], in[3]};
              }));
  ops.add(OpBuilder<AttentionDropoutParams>("_dot_product_attention_dropout")
              .internal()
              .doc("Factors by which dropout scales the weights of an attention call.")
              .inputs({"random_state", "query", "key", "value", "attention_mask", "length"})
              .input_count([](const AttentionDropoutParams& p) {
                return 4 + (p.use_mask ? 1 : 0) + (p.use_length ? 1 : 0);
              })
              .infer([](const AttentionDropoutParams& p, std::span<const TensorSpec>) {
                return Specs{TensorSpec{p.shape, p.dtype}};
              })
              .zero_gradient());
});

}  // namespace mxlite
