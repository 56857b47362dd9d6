#include "cpp/ops/nn/composite_gradients.h"

#include "cpp/ops/op_schema.h"

namespace mxlite::composite {

ValueRef sum_kept(GradBuilder& g, ValueRef v, const Shape& axes) {
  return g.emit("sum", {v}, {{"axis", axes}, {"keepdims", true}});
}
ValueRef mean_kept(GradBuilder& g, ValueRef v, const Shape& axes) {
  return g.emit("mean", {v}, {{"axis", axes}, {"keepdims", true}});
}
ValueRef is_positive(GradBuilder& g, ValueRef v) {
  return g.emit("_greater_scalar", {v}, {{"scalar", 0.0}});
}

ValueRef softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale) {
  const ValueRef shared = sum_kept(g, g.mul(dy, y), Shape{axis});
  return g.mul_scalar(g.mul(y, g.sub(dy, shared)), scale);
}

ValueRef log_softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale) {
  const ValueRef shared = g.mul(g.emit("exp", {y}), sum_kept(g, dy, Shape{axis}));
  return g.mul_scalar(g.sub(dy, shared), scale);
}

namespace {

// Returns the gradients of data, gamma and beta; mean and inv_std have the shape of `view`.
std::vector<ValueRef> finish(GradBuilder& g, ValueRef dy, const Normalization& n, ValueRef x_hat,
                             ValueRef inv_std, bool own_statistics) {
  const TensorSpec &data = g.input_spec(0), &gamma = g.input_spec(1);
  const ValueRef grad = g.reshape(dy, n.view);
  ValueRef scaled = grad;
  if (!n.fix_gamma) scaled = g.mul(grad, g.reshape(g.cast(g.input(1), data.dtype), n.gamma_view));
  ValueRef dx = scaled;
  if (own_statistics) {
    const ValueRef along = g.mul(x_hat, mean_kept(g, g.mul(scaled, x_hat), n.axes));
    dx = g.sub(g.sub(scaled, mean_kept(g, scaled, n.axes)), along);
  }
  const auto like_gamma = [&](ValueRef v) {
    return g.cast(g.reshape(g.sum_to(v, n.gamma_view), gamma.shape), gamma.dtype);
  };
  return {g.reshape(g.mul(dx, inv_std), data.shape),
          n.fix_gamma ? g.zeros(gamma) : like_gamma(g.mul(grad, x_hat)), like_gamma(grad)};
}

}  // namespace

std::vector<ValueRef> normalize(GradBuilder& g, ValueRef dy, const Normalization& n) {
  const ValueRef x = g.reshape(g.input(0), n.view);
  const ValueRef centered = g.sub(x, mean_kept(g, x, n.axes));
  const ValueRef variance = mean_kept(g, g.emit("square", {centered}), n.axes);
  const ValueRef inv_std = g.emit("rsqrt", {g.add_scalar(variance, n.eps)});
  return finish(g, dy, n, g.mul(centered, inv_std), inv_std, true);
}

std::vector<ValueRef> normalize_with(GradBuilder& g, ValueRef dy, const Normalization& n,
                                     ValueRef mean, ValueRef inv_std) {
  const DType dtype = g.input_spec(0).dtype;
  const auto view = [&](ValueRef v) { return g.reshape(g.cast(v, dtype), n.gamma_view); };
  const ValueRef x_hat = g.mul(g.sub(g.reshape(g.input(0), n.view), view(mean)), view(inv_std));
  return finish(g, dy, n, x_hat, view(inv_std), false);
}

}  // namespace mxlite::composite
