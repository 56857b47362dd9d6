#include "cpp/ops/nn/attention.h"

#include <cmath>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

// Defined in attention_gradient.cc.
std::vector<ValueRef> attention_gradients(GradBuilder& g, std::string_view op);

namespace {

constexpr const char* kSelfQk = "_contrib_interleaved_matmul_selfatt_qk";
constexpr const char* kSelfValue = "_contrib_interleaved_matmul_selfatt_valatt";
constexpr const char* kEncQk = "_contrib_interleaved_matmul_encdec_qk";
constexpr const char* kEncValue = "_contrib_interleaved_matmul_encdec_valatt";

void check_projection(const char* op, const char* name, const TensorSpec& spec, int64_t heads,
                      int64_t parts) {
  check_floating(op, name, spec);
  MX_CHECK_SHAPE(
      spec.shape.ndim() == 3 && may_be_multiple(spec.shape[2], checked_mul(heads, parts)), op, ": ",
      name, " must have shape (length, batch, multiple of ", heads * parts, "), got ", spec.shape);
}

void check_attention(const char* op, const TensorSpec& spec, const Shape& values, int64_t heads) {
  const int64_t matrices = multiply_dims(values[1], heads);
  MX_CHECK_SHAPE(spec.shape.ndim() == 3 && may_equal(spec.shape[0], matrices) &&
                     may_equal(spec.shape[2], values[0]),
                 op, ": attention must have shape (", matrices, ", length, ", values[0], "), got ",
                 spec.shape);
}

Specs infer_self_qk(const InterleavedParams& p, std::span<const TensorSpec> in) {
  const Shape& s = in[0].shape;
  check_projection(kSelfQk, "queries_keys_values", in[0], p.heads, 3);
  return Specs{TensorSpec{Shape{multiply_dims(s[1], p.heads), s[0], s[0]}, in[0].dtype}};
}

Specs infer_self_value(const InterleavedParams& p, std::span<const TensorSpec> in) {
  const Shape& s = in[0].shape;
  check_projection(kSelfValue, "queries_keys_values", in[0], p.heads, 3);
  check_same_dtype(kSelfValue, "attention", in[1], in[0].dtype);
  check_attention(kSelfValue, in[1], s, p.heads);
  return Specs{TensorSpec{Shape{in[1].shape[1], s[1], divide_dim(s[2], 3)}, in[0].dtype}};
}

Specs infer_enc_qk(const InterleavedParams& p, std::span<const TensorSpec> in) {
  const Shape &q = in[0].shape, &kv = in[1].shape;
  check_projection(kEncQk, "queries", in[0], p.heads, 1);
  check_projection(kEncQk, "keys_values", in[1], p.heads, 2);
  check_same_dtype(kEncQk, "keys_values", in[1], in[0].dtype);
  MX_CHECK_SHAPE(
      may_equal(q[1], kv[1]) && may_equal(multiply_dims(2, q[2]), kv[2]), kEncQk,
      ": keys_values must have the batch size of queries and twice their last axis, got shape ", kv,
      " for queries of shape ", q);
  const int64_t matrices = multiply_dims(merged(q[1], kv[1]), p.heads);
  return Specs{TensorSpec{Shape{matrices, q[0], kv[0]}, in[0].dtype}};
}

Specs infer_enc_value(const InterleavedParams& p, std::span<const TensorSpec> in) {
  const Shape& kv = in[0].shape;
  check_projection(kEncValue, "keys_values", in[0], p.heads, 2);
  check_same_dtype(kEncValue, "attention", in[1], in[0].dtype);
  check_attention(kEncValue, in[1], kv, p.heads);
  return Specs{TensorSpec{Shape{in[1].shape[1], kv[1], divide_dim(kv[2], 2)}, in[0].dtype}};
}

// Each product has one backward operator, which computes the gradients of all inputs.
template <const char* const& kForward>
std::vector<ValueRef> attention_gradient(GradBuilder& g) {
  std::vector<ValueRef> inputs = {g.output_grad(0)};
  for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  return g.emit_all(str(kForward, "_backward"), inputs, g.params_ref());
}

template <const char* const& kForward>
std::vector<ValueRef> attention_composite_gradient(GradBuilder& g) {
  return attention_gradients(g, kForward);
}

template <const char* const& kForward, class Infer>
void add_attention(OpRegistry& ops, std::vector<std::string> inputs, Infer infer, const char* doc,
                   const char* shapes) {
  ops.add(OpBuilder<InterleavedParams>(kForward)
              .doc(doc)
              .shapes(shapes)
              .inputs(inputs)
              .infer(infer)
              .gradient(attention_gradient<kForward>)
              .composite_gradient(attention_composite_gradient<kForward>)
              .amp(AmpClass::kLowPrecision));
  const int outputs = static_cast<int>(inputs.size());
  inputs.insert(inputs.begin(), "output_grad");
  ops.add(OpBuilder<InterleavedParams>(str(kForward, "_backward"))
              .internal()
              .doc(str("Gradients of ", kForward, "."))
              .inputs(inputs)
              .outputs(outputs)
              .infer([](const InterleavedParams&, std::span<const TensorSpec> in) {
                return Specs(in.begin() + 1, in.end());
              })
              .amp(AmpClass::kLowPrecision));
}

}  // namespace

static const Registration attention_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add_attention<kSelfQk>(
      ops, {"queries_keys_values"}, infer_self_qk,
      "Attention scores of self-attention: products of queries and keys, divided by sqrt(size).",
      "(T, N, heads * size * 3) -> (N * heads, T, T)");
  add_attention<kSelfValue>(ops, {"queries_keys_values", "attention"}, infer_self_value,
                            "Product of self-attention's weights and values.",
                            "queries_keys_values: (T, N, heads * size * 3), attention: (N * heads, "
                            "T, T) -> (T, N, heads * size)");
  add_attention<kEncQk>(
      ops, {"queries", "keys_values"}, infer_enc_qk,
      "Attention scores of a decoder for an encoder: products of queries and keys, divided by "
      "sqrt(size).",
      "queries: (Q, N, heads * size), keys_values: (K, N, heads * size * 2) -> (N * heads, Q, K)");
  add_attention<kEncValue>(ops, {"keys_values", "attention"}, infer_enc_value,
                           "Product of attention weights and an encoder's values.",
                           "keys_values: (K, N, heads * size * 2), attention: (N * heads, Q, K) -> "
                           "(Q, N, heads * size)");
  ops.add(OpBuilder<NoParams>("_contrib_div_sqrt_dim")
              .doc("data / sqrt(size of the last axis).")
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                check_floating("_contrib_div_sqrt_dim", "data", in[0]);
                check_min_ndim("_contrib_div_sqrt_dim", in[0].shape, 1);
                return Specs{in[0]};
              })
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit("_contrib_div_sqrt_dim", {g.output_grad(0)})};
              })
              .refine(refine_like_first)
              .inplace(0, 0));
});

}  // namespace mxlite
