#include "cpp/ops/contrib/count_sketch.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kCountSketchOp = "_contrib_count_sketch";

Specs infer_count_sketch(const CountSketchParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK_DTYPE(is_floating(in[0].dtype), kCountSketchOp,
                 ": data must be of dtype float16, bfloat16, float32 or float64, got ",
                 in[0].dtype);
  MX_CHECK_SHAPE(data.ndim() >= 1, kCountSketchOp,
                 ": data must have at least 1 dimension, got shape ()");
  constexpr const char* kNames[] = {"data", "h", "s"};
  for (size_t i = 1; i < 3; ++i) {
    const Shape& shape = in[i].shape;
    MX_CHECK_SHAPE(shape.ndim() >= 1 && may_equal(shape.back(), data.back()) &&
                       may_equal(count_elements(shape), data.back()),
                   kCountSketchOp, ": ", kNames[i], " must have shape ", Shape{1, data.back()},
                   " for data of shape ", data, ", got ", shape);
  }
  MX_CHECK_DTYPE(in[2].dtype == in[0].dtype, kCountSketchOp, ": s must have the dtype of data, ",
                 in[0].dtype, ", got ", in[2].dtype);
  Shape out = data;
  out[out.ndim() - 1] = p.out_dim;
  return Specs{TensorSpec{out, in[0].dtype}};
}

std::vector<ValueRef> count_sketch_gradient(GradBuilder& g) {
  std::vector<ValueRef> grads(3);  // hash and signs get no gradient
  grads[0] =
      g.emit("_count_sketch_backward", {g.output_grad(0), g.input(1), g.input(2)}, g.params_ref());
  return grads;
}

std::vector<ValueRef> gradient_of_backward(GradBuilder& g) {
  std::vector<ValueRef> grads(3);
  grads[0] = g.emit(kCountSketchOp, {g.output_grad(0), g.input(1), g.input(2)}, g.params_ref());
  return grads;
}

}  // namespace

static const Registration count_sketch_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CountSketchParams>(kCountSketchOp)
              .doc("Count sketch: out[..., h[i]] is the sum of s[i] * data[..., i].")
              .shapes("data: (..., C), h, s: (1, C) -> (..., out_dim)")
              .inputs({"data", "h", "s"})
              .infer(infer_count_sketch)
              .gradient(count_sketch_gradient)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<CountSketchParams>("_count_sketch_backward")
              .internal()
              .doc("Gradient of count_sketch: s[i] * output_grad[..., h[i]].")
              .inputs({"output_grad", "h", "s"})
              .infer([](const CountSketchParams&, std::span<const TensorSpec> in) {
                Shape data = in[0].shape;
                data[data.ndim() - 1] = in[1].shape.back();
                return Specs{TensorSpec{data, in[0].dtype}};
              })
              .gradient(gradient_of_backward));
});

}  // namespace mxlite
