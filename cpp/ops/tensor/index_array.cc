#include "cpp/ops/tensor/index_array.h"

#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_index_array(const IndexArrayParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  const int ndim = to.ndim();
  if (p.axes)
    for (const int64_t axis : *p.axes) normalize_axis("_contrib_index_array", axis, ndim);
  to.push_back(p.axes ? p.axes->ndim() : ndim);
  return {{to, DType::kInt64}};
}

Specs infer_arange_like(const ArangeLikeParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  if (!p.axis) return {in[0]};
  return {{{from[normalize_axis("_contrib_arange_like", *p.axis, from.ndim())]}, in[0].dtype}};
}

Specs infer_index_copy(const NoParams&, std::span<const TensorSpec> in) {
  const Shape& old_shape = in[0].shape;
  const Shape& rows = in[2].shape;
  bool fits = in[1].shape.ndim() == 1 && rows.ndim() == old_shape.ndim() && rows.ndim() > 0 &&
              may_equal(rows[0], in[1].shape[0]);
  for (int i = 1; fits && i < rows.ndim(); ++i) fits = may_equal(rows[i], old_shape[i]);
  MX_CHECK_SHAPE(fits, "_contrib_index_copy: new_tensor must have a row of old_tensor, of shape ",
                 old_shape, ", for each index, got shape ", rows, " for indices of ", in[1].shape);
  MX_CHECK_DTYPE(in[0].dtype == in[2].dtype,
                 "_contrib_index_copy: new_tensor must have the dtype of old_tensor, ", in[0].dtype,
                 ", got ", in[2].dtype);
  Shape to = merged(old_shape, rows);
  to[0] = old_shape[0];
  return {{to, in[0].dtype}};
}

std::vector<ValueRef> grad_index_copy(GradBuilder& g) {
  std::vector<ValueRef> grads(3);
  if (g.needs_grad(0))
    grads[0] =
        g.emit("_contrib_index_copy", {g.output_grad(0), g.input(1), g.zeros(g.input_spec(2))});
  if (g.needs_grad(2)) grads[2] = g.emit("take", {g.output_grad(0), g.input(1)});
  return grads;
}

}  // namespace

static const Registration index_array_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<IndexArrayParams>("_contrib_index_array")
          .doc("Returns the coordinates of each position of data along a new last axis, as int64.")
          .shapes("any shape -> (..., number of `axes`)")
          .infer(infer_index_array)
          .zero_gradient()
          .symbol({.constant_output = true, .untied_inputs = {0}})
          .types([](const IndexArrayParams&, KnownTypes, KnownTypes out) {
            if (!out[0]) out[0] = DType::kInt64;
          }));
  ops.add(OpBuilder<ArangeLikeParams>("_contrib_arange_like")
              .doc("Evenly spaced numbers in the shape of data or along one of its axes.")
              .infer(infer_arange_like)
              .zero_gradient()
              .symbol({.output_type = OutputType::kOfInputs}));
  ops.add(OpBuilder<NoParams>("_contrib_index_copy")
              .inputs({"old_tensor", "index_vector", "new_tensor"})
              .doc("Returns old_tensor with row index_vector[i] replaced by row i of new_tensor.")
              .shapes("old_tensor: (N, ...), index_vector: (M,), new_tensor: (M, ...) -> (N, ...)")
              .infer(infer_index_copy)
              .refine(refine_like_first)
              .gradient(grad_index_copy)
              .inplace(0, 0)
              .symbol({.untied_inputs = {1}}));
});

}  // namespace mxlite
