#include "cpp/ops/nn/interleaved_attention.h"

#include "cpp/ops/nn/dot_product_attention_gradient.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Self-attention has one projection of queries, keys and values. Encoder-decoder attention has a
// projection of queries and one of keys and values.
template <bool Self>
struct Form;
template <>
struct Form<true> {
  static constexpr const char* op = "_interleaved_selfatt";
  static constexpr int projections = 1, query_parts = 3, key_parts = 3;
};
template <>
struct Form<false> {
  static constexpr const char* op = "_interleaved_encdec";
  static constexpr int projections = 2, query_parts = 1, key_parts = 2;
};

template <bool Self>
Specs infer_interleaved_attention(const InterleavedAttentionParams& p,
                                  std::span<const TensorSpec> in) {
  using F = Form<Self>;
  const Shape& q = in[0].shape;
  const DType sums = in[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return Specs{TensorSpec{Shape{q[0], q[1], q[2] / F::query_parts}, in[0].dtype},
               TensorSpec{Shape{q[1], p.heads, q[0]}, sums}, TensorSpec{Shape{2}, DType::kInt64}};
}

// Returns part `index` of a projection as (batch, heads, length, d).
ValueRef take_interleaved_part(GradBuilder& g, ValueRef projection, int64_t heads, int64_t parts,
                               int64_t index) {
  const Shape s = g.spec(projection).shape;
  const int64_t d = s[2] / (heads * parts);
  ValueRef part = g.reshape(projection, Shape{s[0], s[1], heads, parts, d});
  part = g.emit("slice_axis", {part}, {{"axis", int64_t{3}}, {"begin", index}, {"end", index + 1}});
  part = g.reshape(part, Shape{s[0], s[1], heads, d});
  return g.emit("transpose", {part}, {{"axes", Shape{1, 2, 0, 3}}});
}

// Joins parts to a projection of the shape of `like`.
ValueRef join_parts(GradBuilder& g, std::vector<ValueRef> parts, ValueRef like) {
  for (ValueRef& part : parts) part = g.emit("transpose", {part}, {{"axes", Shape{2, 0, 1, 3}}});
  static const OpSchema& stack = ops().get("stack");
  const std::pair<std::string_view, AttrValue> axis[] = {{"axis", int64_t{3}}};
  const ValueRef joined = g.emit_all(stack, parts, stack.make_params_by_name(axis))[0];
  const Shape shape = g.spec(like).shape;
  return g.reshape(joined, shape);
}

template <bool Self>
std::vector<ValueRef> interleaved_attention_composite_gradient(GradBuilder& g) {
  using F = Form<Self>;
  const auto& p = g.params<InterleavedAttentionParams>();
  const ValueRef queries = g.input(0), keys = g.input(F::projections - 1);
  AttentionValues in{take_interleaved_part(g, queries, p.heads, F::query_parts, 0),
                     take_interleaved_part(g, keys, p.heads, F::key_parts, F::key_parts - 2),
                     take_interleaved_part(g, keys, p.heads, F::key_parts, F::key_parts - 1)};
  if (p.use_mask) in.mask = g.input(F::projections);
  if (p.use_length) in.length = g.input(g.num_inputs() - 1);
  in.output_grad = take_interleaved_part(g, g.output_grad(0), p.heads, 1, 0);
  if (p.dropout > 0 && g.training()) in.random_state = g.output(2);
  const std::vector<ValueRef> made = attention_composite(g, p, in);
  std::vector<ValueRef> grads;
  if (Self)
    grads = {join_parts(g, {made[0], made[1], made[2]}, queries)};
  else
    grads = {join_parts(g, {made[0]}, queries), join_parts(g, {made[1], made[2]}, keys)};
  if (p.use_mask) grads.push_back(made[3]);
  grads.resize(static_cast<size_t>(g.num_inputs()));
  return grads;
}

// The fused backward cannot compute the gradient of the mask, which needs the scores in memory.
template <bool Self>
std::vector<ValueRef> interleaved_attention_gradient(GradBuilder& g) {
  using F = Form<Self>;
  const auto& p = g.params<InterleavedAttentionParams>();
  if (p.use_mask && g.needs_grad(F::projections))
    return interleaved_attention_composite_gradient<Self>(g);
  auto params = std::make_shared<InterleavedAttentionParams>(p);
  if (!g.training()) params->dropout = 0;
  std::vector<ValueRef> inputs = {g.output_grad(0)};
  for (int i = 0; i < F::projections; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 3; ++i) inputs.push_back(g.output(i));
  for (int i = F::projections; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  std::vector<ValueRef> grads = g.emit_all(str(F::op, "_backward"), inputs, std::move(params));
  grads.resize(static_cast<size_t>(g.num_inputs()));
  return grads;
}

template <bool Self>
void add_interleaved_attention(OpRegistry& ops, std::vector<std::string> projections,
                               const char* doc) {
  using F = Form<Self>;
  const auto with = [&](std::vector<std::string> first, std::vector<std::string> last) {
    first.insert(first.end(), projections.begin(), projections.end());
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  ops.add(OpBuilder<InterleavedAttentionParams>(F::op)
              .internal()
              .doc(doc)
              .inputs(with({}, {"attention_mask", "length"}))
              .input_count([](const InterleavedAttentionParams& p) {
                return F::projections + p.optional_inputs();
              })
              .outputs(3)
              .visible_outputs(1)
              .infer(infer_interleaved_attention<Self>)
              .gradient(interleaved_attention_gradient<Self>)
              .composite_gradient(interleaved_attention_composite_gradient<Self>)
              .training_dependent()
              .random([](const InterleavedAttentionParams& p, std::span<const TensorSpec> out) {
                return p.dropout > 0 ? static_cast<uint64_t>(out[1].shape.size()) : 0;
              }));
  ops.add(OpBuilder<InterleavedAttentionParams>(str(F::op, "_backward"))
              .internal()
              .doc(str("Gradients of ", F::op, "."))
              .inputs(with({"output_grad"},
                           {"output", "log_sum", "random_state", "attention_mask", "length"}))
              .input_count([](const InterleavedAttentionParams& p) {
                return F::projections + 4 + p.optional_inputs();
              })
              .outputs(F::projections)
              .infer([](const InterleavedAttentionParams&, std::span<const TensorSpec> in) {
                return Specs(in.begin() + 1, in.begin() + 1 + F::projections);
              }));
}

}  // namespace

static const Registration interleaved_attention_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add_interleaved_attention<true>(ops, {"queries_keys_values"},
                                  "Self-attention on interleaved queries, keys and values, "
                                  "computed without storing the scores.");
  add_interleaved_attention<false>(ops, {"queries", "keys_values"},
                                   "Attention of a decoder's queries to an encoder's interleaved "
                                   "keys and values, computed without storing the scores.");
});

}  // namespace mxlite
