// Gradient of Pooling made of ordinary operators, for second-order gradients.
#include <memory>

#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/im2col.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/tensor/pad.h"
#include "cpp/ops/tensor/take.h"

namespace mxlite {
namespace {

Shape moved(int ndim, bool to_first) {
  Shape axes{0};
  if (to_first) axes.push_back(ndim - 1);
  for (int i = to_first ? 1 : 2; i < (to_first ? ndim - 1 : ndim); ++i) axes.push_back(i);
  if (!to_first) axes.push_back(1);
  return axes;
}

ValueRef transpose(GradBuilder& g, ValueRef v, const Shape& axes) {
  return g.emit("transpose", {v}, {{"axes", axes}});
}

// Passes each window's gradient to the window's first largest element. im2col turns windows into
// columns. Data are shifted to be positive, so that zero padding is never the largest.
ValueRef max_gradient(GradBuilder& g, const PoolingParams& p) {
  const bool last = p.channels_last();
  const int ndim = g.input_spec(0).shape.ndim(), spatial = ndim - 2;
  ValueRef x = g.emit("BlockGrad", {g.input(0)}), dy = g.output_grad(0);
  if (last) {
    x = transpose(g, x, moved(ndim, true));
    dy = transpose(g, dy, moved(ndim, true));
  }
  if (is_half(g.spec(x).dtype)) x = g.cast(x, DType::kFloat32);
  const Shape data = g.spec(x).shape, out = g.spec(dy).shape;
  const SpatialWindow w = p.window(g.input_spec(0).shape);
  Shape kernel, stride, padded, begin{0, 0}, end{data[0], data[1]}, pad_width{0, 0, 0, 0};
  for (int i = 0; i < spatial; ++i) {
    const int at = 3 - spatial + i;
    const int64_t size = data[2 + i], pad = w.pad[at];
    const int64_t needed = (out[2 + i] - 1) * w.stride[at] + w.kernel[at];
    const int64_t high = std::max<int64_t>(needed - size - pad, 0);
    kernel.push_back(w.kernel[at]);
    stride.push_back(w.stride[at]);
    pad_width.push_back(pad);
    pad_width.push_back(high);
    padded.push_back(size + pad + high);
    begin.push_back(pad);
    end.push_back(pad + size);
  }
  const ValueRef least = g.emit("min", {x}, {{"keepdims", true}});
  x = g.add_scalar(g.sub(x, least), 1.0);
  x = g.emit("Pad", {x}, {{"mode", std::string("constant")}, {"pad_width", pad_width}});
  const int64_t elements = kernel.size(), windows = out.product(2, out.ndim());
  const Shape columns{data[0], data[1], elements, windows};
  x = g.emit("im2col", {x}, {{"kernel", kernel}, {"stride", stride}});
  // The padded size must not give im2col more windows than the output has.
  MX_ASSERT(g.spec(x).shape.back() == windows);
  const ValueRef winner = g.emit("argmax", {g.reshape(x, columns)}, {{"axis", int64_t{2}}});
  auto pick = std::make_shared<PickBackwardParams>();
  *pick = {columns, 2, PickMode::kClip};
  const ValueRef dy_rows = g.reshape(dy, Shape{data[0], data[1], windows});
  ValueRef dx = g.emit("_pick_backward", {dy_rows, winner}, ParamsRef(std::move(pick)));
  dx = g.emit("col2im", {g.reshape(dx, Shape{data[0], data[1] * elements, windows})},
              {{"output_size", padded}, {"kernel", kernel}, {"stride", stride}});
  dx = g.emit("slice", {dx}, {{"begin", begin}, {"end", end}});
  return last ? transpose(g, dx, moved(ndim, false)) : dx;
}

// For each element x of a window: dy = y^(1 - p) * |x|^(p - 1) * sign(x) * dx.
ValueRef lp_gradient(GradBuilder& g, const PoolingParams& p) {
  const auto power = static_cast<double>(*p.p_value);
  const ValueRef x = g.input(0), y = g.output(0);
  // The gradient of an all-zero window is 0.
  const ValueRef is_zero = g.emit("_equal_scalar", {y}, {{"scalar", 0.0}});
  const ValueRef weight = g.emit("_power_scalar", {g.add(y, is_zero)}, {{"scalar", 1.0 - power}});
  auto params = std::make_shared<PoolingGradParams>();
  static_cast<PoolingParams&>(*params) = p;
  params->pool_type = PoolType::kSum;
  params->data_shape = g.input_spec(0).shape;
  const ValueRef spread =
      g.emit("_pooling_backward", {g.mul(g.output_grad(0), weight)}, ParamsRef(std::move(params)));
  const ValueRef size = g.emit("_power_scalar", {g.emit("abs", {x})}, {{"scalar", power - 1.0}});
  return g.mul(spread, g.mul(size, g.emit("sign", {x})));
}

}  // namespace

std::vector<ValueRef> composite_pooling_gradient(GradBuilder& g) {
  const auto& p = g.params<PoolingParams>();
  if (g.input_spec(0).shape.size() == 0) return {};
  if (p.pool_type == PoolType::kMax) return {max_gradient(g, p)};
  if (p.pool_type == PoolType::kLp) return {lp_gradient(g, p)};
  return {};
}

}  // namespace mxlite
