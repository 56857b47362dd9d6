// Mean and variance in one operator.
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer(const MomentsParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_DTYPE(is_floating(in[0].dtype), "moments: data must have a floating dtype, got ",
                 in[0].dtype);
  const AxisMask reduced = reduced_axes("moments", p.axes, false, in[0].shape.ndim());
  const TensorSpec out{result_shape(in[0].shape, reduced, p.keepdims), in[0].dtype};
  return {out, out};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  const Shape& shape = g.input_spec(0).shape;
  const AxisMask reduced =
      reduced_axes("moments", g.params<MomentsParams>().axes, false, shape.ndim());
  const Shape kept = kept_shape(shape, reduced);
  const double share =
      1.0 / static_cast<double>(std::max<int64_t>(reduced_size(shape, reduced), 1));
  if (shape.size() == 0) return {g.zeros(g.input_spec(0))};
  ValueRef grad;
  if (g.has_output_grad(0)) {
    grad = g.mul_scalar(g.reshape(g.output_grad(0), kept), share);
    if (kept != shape) grad = g.emit("broadcast_to", {grad}, {{"shape", shape}});
  }
  if (g.has_output_grad(1)) {
    const ValueRef centered = g.sub(g.input(0), g.reshape(g.output(0), kept));
    const ValueRef scaled = g.mul_scalar(g.reshape(g.output_grad(1), kept), 2.0 * share);
    grad = g.add(grad, g.mul(centered, scaled));
  }
  return {grad};
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<MomentsParams>("moments")
              .doc("Mean and biased variance, which divides by the number of elements, along axes.")
              .shapes("any shape -> mean and variance without the axes `axes`")
              .outputs(2)
              .infer(infer)
              .gradient(gradient)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
