// Gradients of dot-product attention with ordinary operators, which hold the scores: for gradients
// of gradients, and where the mask needs a gradient. Heads that share a key head are rows of one
// matrix product: query is seen as (batch * key_heads, heads / key_heads * q_length, d).
#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/dot_product_attention.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

struct Sizes {
  int64_t batch, heads, q_length, key_heads, k_length, d, dv;
  DType dtype;  // in which the gradients are computed
  explicit Sizes(const GradBuilder& g)
      : batch(g.input_spec(0).shape[0]),
        heads(g.input_spec(0).shape[1]),
        q_length(g.input_spec(0).shape[2]),
        key_heads(g.input_spec(1).shape[1]),
        k_length(g.input_spec(1).shape[2]),
        d(g.input_spec(1).shape[3]),
        dv(g.input_spec(2).shape[3]),
        dtype(is_half(g.input_spec(0).dtype) ? DType::kFloat32 : g.input_spec(0).dtype) {}
  int64_t matrices() const { return batch * key_heads; }
  int64_t rows() const { return key_heads ? heads / key_heads * q_length : 0; }
  Shape scores() const { return {batch, heads, q_length, k_length}; }
};

ValueRef product(GradBuilder& g, ValueRef a, ValueRef b, bool transpose_a, bool transpose_b) {
  return g.emit("batch_dot", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// 0, 1, ... as `shape`, which has one axis longer than 1.
ValueRef positions(GradBuilder& g, int64_t first, int64_t count, DType dtype, const Shape& shape) {
  const ValueRef range = g.emit("_arange", {},
                                {{"start", static_cast<double>(first)},
                                 {"stop", static_cast<double>(first + count)},
                                 {"dtype", dtype}});
  return g.reshape(range, shape);
}

// 1 where a query attends to a key by length and causality, else 0; undefined: everywhere.
ValueRef attended(GradBuilder& g, const AttentionParams& p, const Sizes& s) {
  ValueRef result;
  if (!p.use_length && !p.causal) return result;
  const ValueRef key = positions(g, 0, s.k_length, s.dtype, Shape{1, 1, 1, s.k_length});
  if (p.use_length) {
    const ValueRef length = g.cast(g.input(g.num_inputs() - 1), s.dtype);
    result = g.emit("broadcast_lesser", {key, g.reshape(length, Shape{s.batch, 1, 1, 1})});
  }
  if (p.causal) {
    const ValueRef last =
        positions(g, s.k_length - s.q_length, s.q_length, s.dtype, Shape{1, 1, s.q_length, 1});
    const ValueRef past = g.emit("broadcast_lesser_equal", {key, last});
    result = result ? g.mul(result, past) : past;
  }
  return result;
}

}  // namespace

std::vector<ValueRef> attention_composite_gradient(GradBuilder& g) {
  const auto& p = g.params<AttentionParams>();
  const Sizes s(g);
  const double scale = p.scale_of(s.d);
  const Shape rows{s.matrices(), s.rows(), s.k_length};
  const auto input = [&](int i, const Shape& shape) {
    return g.reshape(g.cast(g.input(i), s.dtype), shape);
  };
  const ValueRef query = input(0, Shape{s.matrices(), s.rows(), s.d});
  const ValueRef key = input(1, Shape{s.matrices(), s.k_length, s.d});
  const ValueRef value = input(2, Shape{s.matrices(), s.k_length, s.dv});
  const ValueRef dy =
      g.reshape(g.cast(g.output_grad(0), s.dtype), Shape{s.matrices(), s.rows(), s.dv});

  ValueRef scores = g.reshape(g.mul_scalar(product(g, query, key, false, true), scale), s.scores());
  if (p.use_mask)  // finite, so that no infinity meets a factor of 0
    scores = g.add(scores, g.emit("_maximum_scalar", {g.cast(g.input(3), s.dtype)},
                                  {{"scalar", kMaskedScore}}));
  if (const ValueRef kept = attended(g, p, s)) {
    const ValueRef masked = g.mul_scalar(g.add_scalar(kept, -1), -kMaskedScore);
    scores = g.add(g.mul(scores, kept), masked);
  }
  // The margin covers the rounding of a masked score to which a product was added.
  const ValueRef taken = g.emit("_greater_scalar", {scores}, {{"scalar", 0.999 * kMaskedScore}});
  const ValueRef weights = g.mul(g.emit("softmax", {scores}, {{"axis", -1}}), taken);

  ValueRef dropped = weights, dweights = g.reshape(product(g, dy, value, false, true), s.scores());
  if (p.dropout > 0 && g.training()) {
    std::vector<ValueRef> inputs = {g.output(2)};
    for (int i = 0; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
    auto drawn = std::make_shared<AttentionDropoutParams>();
    drawn->shape = s.scores();
    drawn->p = p.dropout;
    drawn->dtype = s.dtype;
    drawn->causal = p.causal;
    drawn->use_mask = p.use_mask;
    drawn->use_length = p.use_length;
    const ValueRef factors =
        g.emit_all("_dot_product_attention_dropout", inputs, std::move(drawn))[0];
    dropped = g.mul(weights, factors);
    dweights = g.mul(dweights, factors);
  }
  const ValueRef weighted = g.mul(weights, dweights);
  const ValueRef dscores =
      g.sub(weighted, g.mul(weights, composite::sum_kept(g, weighted, Shape{3})));
  const ValueRef dproduct = g.mul_scalar(g.reshape(dscores, rows), scale);

  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = product(g, dproduct, key, false, false);
  grads[1] = product(g, dproduct, query, true, false);
  grads[2] = product(g, g.reshape(dropped, rows), dy, true, false);
  if (p.use_mask) grads[3] = g.sum_to(dscores, g.input_spec(3).shape);
  for (int i = 0; i < 3 + (p.use_mask ? 1 : 0); ++i) {
    const TensorSpec& spec = g.input_spec(i);
    ValueRef& grad = grads[static_cast<size_t>(i)];
    grad = g.cast(g.reshape(grad, spec.shape), spec.dtype);
  }
  return grads;
}

}  // namespace mxlite
