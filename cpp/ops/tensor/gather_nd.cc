// gather_nd, scatter_nd, _gather_nd_backward (adds where scatter_nd overwrites), _scatter_set_nd.
#include "cpp/ops/tensor/gather_nd.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Returns the shape that `indices` select from shape `from`; unknown if their depth is unknown.
Shape gathered_shape(const char* op, const Shape& from, const TensorSpec& indices) {
  MX_CHECK_DTYPE(indices.dtype != DType::kBool, op,
                 ": indices must have a numeric dtype, got bool");
  MX_CHECK_SHAPE(indices.shape.ndim() > 0, op, ": indices must have shape (M, ...), got ()");
  const int64_t depth = indices.shape[0];
  if (!is_known(depth)) return Shape::unknown();
  MX_CHECK_SHAPE(depth > 0 && depth <= from.ndim(), op, ": indices must give from 1 to ",
                 from.ndim(), " coordinates for an array of shape ", from, ", got ", depth,
                 " in shape ", indices.shape);
  Shape to;
  for (int i = 1; i < indices.shape.ndim(); ++i) to.push_back(indices.shape[i]);
  for (int i = static_cast<int>(depth); i < from.ndim(); ++i) to.push_back(from[i]);
  return to;
}

Specs infer_gather_nd(const NoParams&, std::span<const TensorSpec> in) {
  Shape to = gathered_shape("gather_nd", in[0].shape, in[1]);
  if (to.ndim() == 0) to.push_back(1);  // as 1.x, which has no 0-d arrays
  return {{to, in[0].dtype}};
}

void check_scattered(const char* op, const Shape& shape, const TensorSpec& data,
                     const TensorSpec& indices) {
  const Shape expected = gathered_shape(op, shape, indices);
  MX_CHECK_SHAPE(expected.ndim() < 0 || may_equal(data.shape, expected) ||
                     (expected.ndim() == 0 && may_equal(count_elements(data.shape), 1)),
                 op, ": data must have shape ", expected, " for indices of shape ", indices.shape,
                 " into ", shape, ", got ", data.shape);
}

Specs infer_scatter_nd(const ScatterNdParams& p, std::span<const TensorSpec> in) {
  check_scattered("scatter_nd", p.shape, in[0], in[1]);
  return {{p.shape, in[0].dtype}};
}

Specs infer_scatter_set_nd(const ScatterNdParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(p.shape.ndim() == 0 || may_equal(p.shape, in[0].shape),
                 "_scatter_set_nd: shape must be that of lhs ", in[0].shape, ", got ", p.shape);
  MX_CHECK_DTYPE(in[0].dtype == in[1].dtype, "_scatter_set_nd: rhs must have the dtype of lhs, ",
                 in[0].dtype, ", got ", in[1].dtype);
  check_scattered("_scatter_set_nd", in[0].shape, in[1], in[2]);
  return {{p.shape.ndim() == 0 ? in[0].shape : p.shape, in[0].dtype}};
}

std::shared_ptr<ScatterNdParams> with_shape(const Shape& shape) {
  auto params = std::make_shared<ScatterNdParams>();
  params->shape = shape;
  return params;
}

std::vector<ValueRef> grad_gather_nd(GradBuilder& g) {
  return {g.emit("_gather_nd_backward", {g.output_grad(0), g.input(1)},
                 with_shape(g.input_spec(0).shape)),
          {}};
}

// Gradient of scatter_nd and of _gather_nd_backward.
std::vector<ValueRef> grad_scatter_nd(GradBuilder& g) {
  return {g.reshape(g.emit("gather_nd", {g.output_grad(0), g.input(1)}), g.input_spec(0).shape),
          {}};
}

std::vector<ValueRef> grad_scatter_set_nd(GradBuilder& g) {
  std::vector<ValueRef> grads(3);
  if (g.needs_grad(0))
    grads[0] = g.emit(
        "_scatter_set_nd",
        {g.output_grad(0), g.zeros({g.input_spec(1).shape, g.output_spec(0).dtype}), g.input(2)},
        g.params_ref());
  if (g.needs_grad(1))
    grads[1] =
        g.reshape(g.emit("gather_nd", {g.output_grad(0), g.input(2)}), g.input_spec(1).shape);
  return grads;
}

}  // namespace

static const Registration gather_nd_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("gather_nd")
              .inputs({"data", "indices"})
              .doc("Returns the elements or slices of data at the given coordinates: output[b] = "
                   "data[indices[0, b], ..., indices[M - 1, b]].")
              .shapes("data: (a0, ..., aM, ...), indices: (M, b0, ...) -> (b0, ..., rest of data)")
              .infer(infer_gather_nd)
              .gradient(grad_gather_nd)
              .symbol({.untied_inputs = {1}}));
  ops.add(OpBuilder<ScatterNdParams>("scatter_nd")
              .inputs({"data", "indices"})
              .doc("Array of zeros with data written at the given coordinates; of equal "
                   "coordinates the last one is used.")
              .shapes("data: (b0, ..., rest), indices: (M, b0, ...) -> `shape`")
              .infer(infer_scatter_nd)
              .gradient(grad_scatter_nd)
              .symbol({.untied_inputs = {1}})
              .refine([](const ScatterNdParams& p, PartialShapes& shapes) {
                shapes.refine_output(0, p.shape);
              }));
  ops.add(OpBuilder<ScatterNdParams>("_gather_nd_backward")
              .alias({"_backward_gather_nd"})
              .inputs({"data", "indices"})
              .doc("Array of zeros to which data is added at the given coordinates.")
              .infer(infer_scatter_nd)
              .gradient(grad_scatter_nd));
  ops.add(OpBuilder<ScatterNdParams>("_scatter_set_nd")
              .inputs({"lhs", "rhs", "indices"})
              .doc("Returns lhs with the elements at the given coordinates replaced by rhs.")
              .infer(infer_scatter_set_nd)
              .refine([](const ScatterNdParams& p, PartialShapes& shapes) {
                if (p.shape.ndim() > 0) shapes.refine_output(0, p.shape);
                refine_like_first(&p, shapes);
              })
              .gradient(grad_scatter_set_nd)
              .inplace(0, 0)
              .symbol({.untied_inputs = {2}}));
});

}  // namespace mxlite
