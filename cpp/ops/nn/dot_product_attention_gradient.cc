// Query heads that share a key head are rows of one matrix product: query is reshaped to
// (batch * key_heads, heads / key_heads * q_length, d).
#include "cpp/ops/nn/dot_product_attention_gradient.h"

#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

struct Sizes {
  int64_t batch, heads, q_length, key_heads, k_length, d, dv;
  DType dtype;  // in which the gradients are computed
  Sizes(const TensorSpec& query, const TensorSpec& key, const TensorSpec& value)
      : batch(query.shape[0]),
        heads(query.shape[1]),
        q_length(query.shape[2]),
        key_heads(key.shape[1]),
        k_length(key.shape[2]),
        d(key.shape[3]),
        dv(value.shape[3]),
        dtype(is_half(query.dtype) ? DType::kFloat32 : query.dtype) {}
  int64_t matrices() const { return batch * key_heads; }
  int64_t rows() const { return key_heads ? heads / key_heads * q_length : 0; }
  Shape scores() const { return {batch, heads, q_length, k_length}; }
};

ValueRef dot_product_attention_gradient_product(GradBuilder& g, ValueRef a, ValueRef b,
                                                bool transpose_a, bool transpose_b) {
  return g.emit("batch_dot", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// Returns first, first + 1, ... along the only axis of `shape` that is longer than 1.
ValueRef positions(GradBuilder& g, int64_t first, int64_t count, DType dtype, const Shape& shape) {
  const ValueRef range = g.emit("_arange", {},
                                {{"start", static_cast<double>(first)},
                                 {"stop", static_cast<double>(first + count)},
                                 {"dtype", dtype}});
  return g.reshape(range, shape);
}

// Returns 1 where length and causality allow a query to attend to a key, else 0. If nothing limits
// attention, returns an undefined value.
ValueRef attended(GradBuilder& g, const Sizes& s, ValueRef length, bool causal) {
  ValueRef result;
  if (!length && !causal) return result;
  const ValueRef key = positions(g, 0, s.k_length, s.dtype, Shape{1, 1, 1, s.k_length});
  if (length)
    result = g.emit("broadcast_lesser",
                    {key, g.reshape(g.cast(length, s.dtype), Shape{s.batch, 1, 1, 1})});
  if (causal) {
    const ValueRef last =
        positions(g, s.k_length - s.q_length, s.q_length, s.dtype, Shape{1, 1, s.q_length, 1});
    const ValueRef past = g.emit("broadcast_lesser_equal", {key, last});
    result = result ? g.mul(result, past) : past;
  }
  return result;
}

}  // namespace

std::vector<ValueRef> attention_composite(GradBuilder& g, const AttentionParams& p,
                                          const AttentionValues& in) {
  const Sizes s(g.spec(in.query), g.spec(in.key), g.spec(in.value));
  const double scale = p.scale_of(s.d);
  const Shape rows{s.matrices(), s.rows(), s.k_length};
  const auto as = [&](ValueRef v, const Shape& shape) {
    return g.reshape(g.cast(v, s.dtype), shape);
  };
  const ValueRef query = as(in.query, Shape{s.matrices(), s.rows(), s.d});
  const ValueRef key = as(in.key, Shape{s.matrices(), s.k_length, s.d});
  const ValueRef value = as(in.value, Shape{s.matrices(), s.k_length, s.dv});
  const ValueRef dy = as(in.output_grad, Shape{s.matrices(), s.rows(), s.dv});

  ValueRef scores = g.reshape(
      g.mul_scalar(dot_product_attention_gradient_product(g, query, key, false, true), scale),
      s.scores());
  if (in.mask)  // make -inf finite, because inf * 0 below would be NaN
    scores = g.add(
        scores, g.emit("_maximum_scalar", {g.cast(in.mask, s.dtype)}, {{"scalar", kMaskedScore}}));
  if (const ValueRef kept = attended(g, s, in.length, p.causal)) {
    const ValueRef masked = g.mul_scalar(g.add_scalar(kept, -1), -kMaskedScore);
    scores = g.add(g.mul(scores, kept), masked);
  }
  // The factor 0.999 allows for rounding when a product was added to a masked score.
  const ValueRef taken = g.emit("_greater_scalar", {scores}, {{"scalar", 0.999 * kMaskedScore}});
  const ValueRef weights = g.mul(g.emit("softmax", {scores}, {{"axis", -1}}), taken);

  ValueRef dropped = weights,
           dweights = g.reshape(dot_product_attention_gradient_product(g, dy, value, false, true),
                                s.scores());
  if (in.random_state) {
    std::vector<ValueRef> inputs = {in.random_state, in.query, in.key, in.value};
    if (in.mask) inputs.push_back(in.mask);
    if (in.length) inputs.push_back(in.length);
    auto drawn = std::make_shared<AttentionDropoutParams>();
    drawn->shape = s.scores();
    drawn->p = p.dropout;
    drawn->dtype = s.dtype;
    drawn->causal = p.causal;
    drawn->use_mask = static_cast<bool>(in.mask);
    drawn->use_length = static_cast<bool>(in.length);
    const ValueRef factors =
        g.emit_all("_dot_product_attention_dropout", inputs, std::move(drawn))[0];
    dropped = g.mul(weights, factors);
    dweights = g.mul(dweights, factors);
  }
  const ValueRef weighted = g.mul(weights, dweights);
  const ValueRef dscores =
      g.sub(weighted, g.mul(weights, composite::sum_kept(g, weighted, Shape{3})));
  const ValueRef dproduct = g.mul_scalar(g.reshape(dscores, rows), scale);

  const auto like = [&](ValueRef grad, ValueRef v) {
    const TensorSpec spec = g.spec(v);
    return g.cast(g.reshape(grad, spec.shape), spec.dtype);
  };
  ValueRef mask_grad;
  if (in.mask) {
    const Shape shape = g.spec(in.mask).shape;
    mask_grad = like(g.sum_to(dscores, shape), in.mask);
  }
  return {like(dot_product_attention_gradient_product(g, dproduct, key, false, false), in.query),
          like(dot_product_attention_gradient_product(g, dproduct, query, true, false), in.key),
          like(dot_product_attention_gradient_product(g, g.reshape(dropped, rows), dy, true, false),
               in.value),
          mask_grad};
}

std::vector<ValueRef> attention_composite_gradient(GradBuilder& g) {
  const auto& p = g.params<AttentionParams>();
  AttentionValues in{g.input(0), g.input(1), g.input(2)};
  if (p.use_mask) in.mask = g.input(3);
  if (p.use_length) in.length = g.input(g.num_inputs() - 1);
  in.output_grad = g.output_grad(0);
  if (p.dropout > 0 && g.training()) in.random_state = g.output(2);
  std::vector<ValueRef> grads = attention_composite(g, p, in);
  grads.resize(static_cast<size_t>(g.num_inputs()));
  return grads;
}

}  // namespace mxlite
