#include "cpp/ops/tensor/diag.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

DiagonalView diagonal_view(const Shape& shape, const Strides& strides, int64_t k, int axis1,
                           int axis2) {
  const int row = normalize_axis("diag", axis1, shape.ndim());
  const int col = normalize_axis("diag", axis2, shape.ndim());
  MX_CHECK(row != col, "diag: axis1 and axis2 must be different axes, got ", axis1, " and ", axis2);
  MX_CHECK(may_be_at_least(shape[col], std::max<int64_t>(k, 0)) &&
               may_be_at_least(shape[row], std::max<int64_t>(-k, 0)),
           "diag: k must be from ", -shape[row], " to ", shape[col], " for shape ", shape, ", got ",
           k);
  DiagonalView v;
  for (int i = 0; i < shape.ndim(); ++i)
    if (i != row && i != col) {
      v.shape.push_back(shape[i]);
      v.strides.push_back(strides[i]);
    }
  v.shape.push_back(if_known(
      [k](int64_t rows, int64_t cols) {
        return std::max<int64_t>(
            std::min(rows + std::min<int64_t>(k, 0), cols - std::max<int64_t>(k, 0)), 0);
      },
      shape[row], shape[col]));
  v.strides.push_back(strides[row] + strides[col]);
  v.start = k >= 0 ? k * strides[col] : -k * strides[row];
  return v;
}

namespace {

Specs infer_diag(const DiagParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  MX_CHECK_SHAPE(from.ndim() > 0, "diag: data must have at least 1 dimension, got shape ()");
  if (from.ndim() == 1) {
    const int64_t n = add_to_dim(from[0], std::abs(p.k));
    return {{{n, n}, in[0].dtype}};
  }
  return {{diagonal_view(from, from, p.k, p.axis1, p.axis2).shape, in[0].dtype}};
}

Specs infer_diag_backward(const DiagBackwardParams& p, std::span<const TensorSpec> in) {
  return {{p.shape, in[0].dtype}};
}

std::vector<ValueRef> grad_diag(GradBuilder& g) {
  const auto& p = g.params<DiagParams>();
  const Shape& from = g.input_spec(0).shape;
  if (from.ndim() == 1) return {g.emit("diag", {g.output_grad(0)}, {{"k", p.k}})};
  auto params = std::make_shared<DiagBackwardParams>();
  *params = {from, p.k, p.axis1, p.axis2};
  return {g.emit("_diag_backward", {g.output_grad(0)}, params)};
}

std::vector<ValueRef> grad_diag_backward(GradBuilder& g) {
  const auto& p = g.params<DiagBackwardParams>();
  auto params = std::make_shared<DiagParams>();
  *params = {p.k, p.axis1, p.axis2};
  return {g.emit("diag", {g.output_grad(0)}, params)};
}

}  // namespace

static const Registration diag_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<DiagParams>("diag")
              .doc("Returns a diagonal of an array, or for a vector the matrix with this vector on "
                   "a diagonal.")
              .shapes("(n,) -> (n, n); (..., m, n) -> the diagonal of two axes, last")
              .infer(infer_diag)
              .gradient(grad_diag));
  ops.add(OpBuilder<DiagBackwardParams>("_diag_backward")
              .internal()
              .doc("Zeros with data on a diagonal.")
              .infer(infer_diag_backward)
              .gradient(grad_diag_backward));
});

}  // namespace mxlite
