#include "cpp/ops/nn/fully_connected.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kFullyConnectedOp = "FullyConnected";

Specs infer_fully_connected_specs(const FullyConnectedParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  const Shape& weight = in[1].shape;
  check_min_ndim(kFullyConnectedOp, data, 1);
  MX_CHECK_DTYPE(in[0].dtype != DType::kBool, kFullyConnectedOp,
                 ": data must have a numeric dtype, got bool");
  check_same_dtype(kFullyConnectedOp, "weight", in[1], in[0].dtype);
  const auto [rows, columns] = fully_connected_rows(p, data);
  if (!may_equal(weight, Shape{p.num_hidden, columns})) {
    const bool flat_fits = !p.flatten && weight.ndim() == 2 && may_equal(weight[0], p.num_hidden) &&
                           may_equal(weight[1], product_of_dims(data, 1, data.ndim()));
    fail(ErrorKind::kShape, kFullyConnectedOp,
         ": weight must have shape (num_hidden, inputs) = ", Shape{p.num_hidden, columns},
         " for data of shape ", data, ", got ", weight,
         flat_fits ? str("; or flatten data to ", Shape{data[0], weight[1]}) : "");
  }
  if (!p.no_bias) {
    check_same_dtype(kFullyConnectedOp, "bias", in[2], in[0].dtype);
    MX_CHECK_SHAPE(may_equal(in[2].shape, Shape{p.num_hidden}), kFullyConnectedOp,
                   ": bias must have shape (num_hidden,) = ", Shape{p.num_hidden}, ", got ",
                   in[2].shape);
  }
  Shape out = data;
  if (p.flatten) {
    out = Shape{data[0], p.num_hidden};
  } else {
    out[data.ndim() - 1] = p.num_hidden;
  }
  return Specs{TensorSpec{out, in[0].dtype}};
}

void complete_fully_connected(const FullyConnectedParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  check_min_ndim(kFullyConnectedOp, in[0].shape, 1);
  complete_shape(in[1], Shape{p.num_hidden, fully_connected_rows(p, in[0].shape).columns});
  if (!p.no_bias) complete_shape(in[2], Shape{p.num_hidden});
}

// Emits dot, which has a gradient, so that second-order gradients work.
std::vector<ValueRef> fully_connected_gradient(GradBuilder& g) {
  const auto& p = g.params<FullyConnectedParams>();
  const Shape& data_shape = g.input_spec(0).shape;
  const auto [rows, columns] = fully_connected_rows(p, data_shape);
  const ValueRef grad = g.reshape(g.output_grad(0), Shape{rows, p.num_hidden});
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  if (g.needs_grad(0)) grads[0] = g.reshape(g.emit("dot", {grad, g.input(1)}), data_shape);
  if (g.needs_grad(1)) {
    const ValueRef data = g.reshape(g.input(0), Shape{rows, columns});
    grads[1] = g.emit("dot", {grad, data}, {{"transpose_a", true}});
  }
  if (!p.no_bias && g.needs_grad(2)) grads[2] = g.emit("sum", {grad}, {{"axis", Shape{0}}});
  return grads;
}

void refine_fully_connected(const FullyConnectedParams& p, PartialShapes& shapes) {
  const Shape data = shapes.input(0), weight = shapes.input(1), out = shapes.output(0);
  if (p.flatten) {
    int64_t rows = out.ndim() > 0 ? out[0] : -1;
    if (data.ndim() > 0 && data[0] != -1) rows = data[0];
    shapes.refine_output(0, Shape{rows, p.num_hidden});
    if (rows == -1) return;
    if (data.ndim() > 0) {
      Shape whole = data;
      whole[0] = rows;
      shapes.refine_input(0, whole);
    } else if (data.ndim() < 0 && weight.ndim() == 2) {
      shapes.refine_input(0, Shape{rows, weight[1]});
    }
  } else if (data.ndim() > 0) {
    Shape result = data;
    result[result.ndim() - 1] = p.num_hidden;
    shapes.refine_output(0, result);
    if (out.ndim() != data.ndim()) return;
    Shape before = out;
    before[before.ndim() - 1] = data.back();
    shapes.refine_input(0, before);
  }
}

}  // namespace

static const Registration fully_connected_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<FullyConnectedParams>(kFullyConnectedOp)
              .doc("Linear layer: data @ weight.T + bias.")
              .shapes("data: (N, ...), weight: (num_hidden, inputs), bias: (num_hidden,) -> (N, "
                      "num_hidden); flatten=False: (..., inputs) -> (..., num_hidden)")
              .inputs({"data", "weight", "bias"})
              .input_count([](const FullyConnectedParams& p) { return p.no_bias ? 2 : 3; })
              .infer(infer_fully_connected_specs)
              .complete(complete_fully_connected)
              .gradient(fully_connected_gradient)
              .amp(AmpClass::kLowPrecision)
              .drawn("layer", "{num_hidden}")
              .refine(refine_fully_connected));
});

}  // namespace mxlite
