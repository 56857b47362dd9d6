// Gradients of the interleaved attention products as ordinary operators, so that these gradients
// can be differentiated. Projections are (length, batch, heads * parts * depth); products work on
// (batch * heads, length, depth).
#include <cmath>
#include <string_view>

#include "cpp/ops/nn/attention.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

struct Projection {
  int64_t length, heads, parts, depth;  // heads is batch * heads
  Projection(const Shape& shape, int64_t heads_each, int64_t parts)
      : length(shape[0]),
        heads(shape[1] * heads_each),
        parts(parts),
        depth(shape[2] / (heads_each * parts)) {}
};

ValueRef swap_heads(GradBuilder& g, ValueRef v) {
  return g.emit("transpose", {v}, {{"axes", Shape{1, 0, 2}}});
}

// Returns part `index` of a projection: queries, keys or values.
ValueRef take_part(GradBuilder& g, ValueRef v, const Projection& p, int64_t index) {
  const ValueRef parts = g.reshape(v, Shape{p.length, p.heads, p.parts, p.depth});
  const ValueRef part =
      g.emit("slice_axis", {parts}, {{"axis", int64_t{2}}, {"begin", index}, {"end", index + 1}});
  return swap_heads(g, g.reshape(part, Shape{p.length, p.heads, p.depth}));
}

// Joins parts to a projection. Undefined parts become zeros.
ValueRef join(GradBuilder& g, std::vector<ValueRef> parts, const Projection& p,
              const TensorSpec& like) {
  for (ValueRef& part : parts)
    part = part ? swap_heads(g, part) : g.zeros({Shape{p.length, p.heads, p.depth}, like.dtype});
  static const OpSchema& stack = ops().get("stack");
  const std::pair<std::string_view, AttrValue> axis[] = {{"axis", int64_t{2}}};
  return g.reshape(g.emit_all(stack, parts, stack.make_params_by_name(axis))[0], like.shape);
}

// Returns a @ b, optionally with `a` or `b` transposed.
ValueRef attention_gradient_product(GradBuilder& g, ValueRef a, ValueRef b, bool transpose_a,
                                    bool transpose_b) {
  return g.emit("batch_dot", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// scores = queries @ keys^T / sqrt(depth)
std::vector<ValueRef> scores_gradients(GradBuilder& g, ValueRef queries, ValueRef keys,
                                       int64_t depth) {
  const ValueRef dy = g.mul_scalar(g.output_grad(0), 1.0 / std::sqrt(static_cast<double>(depth)));
  return {attention_gradient_product(g, dy, keys, false, false),
          attention_gradient_product(g, dy, queries, true, false)};
}

}  // namespace

std::vector<ValueRef> attention_gradients(GradBuilder& g, std::string_view op) {
  const int64_t heads = g.params<InterleavedParams>().heads;
  const bool self = op.find("selfatt") != std::string_view::npos;
  const int64_t parts = self ? 3 : 2;
  const bool scores = op.ends_with("_qk");
  const int source = scores && !self ? 1 : 0;  // the input that holds the keys or values
  const TensorSpec& spec = g.input_spec(source);
  const Projection p(spec.shape, heads, parts);
  if (scores && self) {
    const ValueRef queries = take_part(g, g.input(0), p, 0), keys = take_part(g, g.input(0), p, 1);
    const std::vector<ValueRef> grads = scores_gradients(g, queries, keys, p.depth);
    return {join(g, {grads[0], grads[1], {}}, p, spec)};
  }
  if (scores) {
    const Projection q(g.input_spec(0).shape, heads, 1);
    const ValueRef queries = take_part(g, g.input(0), q, 0), keys = take_part(g, g.input(1), p, 0);
    const std::vector<ValueRef> grads = scores_gradients(g, queries, keys, p.depth);
    return {join(g, {grads[0]}, q, g.input_spec(0)), join(g, {grads[1], {}}, p, spec)};
  }
  // output = attention @ values
  const Projection out(g.output_spec(0).shape, heads, 1);
  const ValueRef dy = take_part(g, g.output_grad(0), out, 0);
  const ValueRef values = take_part(g, g.input(0), p, parts - 1);
  std::vector<ValueRef> joined(static_cast<size_t>(parts));
  joined.back() = attention_gradient_product(g, g.input(1), dy, true, false);
  return {join(g, joined, p, spec), attention_gradient_product(g, dy, values, false, true)};
}

}  // namespace mxlite
