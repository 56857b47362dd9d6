// khatri_rao: Kronecker products column by column.
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_khatri_rao(const NoParams&, std::span<const TensorSpec> in) {
  MX_CHECK(!in.empty(), "khatri_rao: the number of matrices must be at least 1, got 0");
  int64_t rows = 1, columns = kUnknownDim;
  for (size_t i = 0; i < in.size(); ++i) {
    MX_CHECK_SHAPE(in[i].shape.ndim() == 2 && may_equal(in[i].shape[1], columns),
                   "khatri_rao: matrix ", i,
                   " must have 2 dimensions and as many columns as matrix 0 of shape ", in[0].shape,
                   ", got shape ", in[i].shape);
    MX_CHECK_DTYPE(in[i].dtype == in[0].dtype, "khatri_rao: matrix ", i,
                   " must have the dtype of matrix 0, ", in[0].dtype, ", got ", in[i].dtype);
    rows = multiply_dims(rows, in[i].shape[0]);
    columns = merged(columns, in[i].shape[1]);
  }
  return {{{rows, columns}, in[0].dtype}};
}

// Views the result as (before, own rows, after, columns). The gradient of one factor is the sum
// over `before` and `after` of output_grad times the product of the other factors.
std::vector<ValueRef> grad_khatri_rao(GradBuilder& g) {
  const int count = g.num_inputs();
  const int64_t columns = g.output_spec(0).shape[1];
  std::vector<ValueRef> grads(static_cast<size_t>(count));
  for (int own = 0; own < count; ++own) {
    if (!g.needs_grad(own)) continue;
    const int64_t rows = g.input_spec(own).shape[0];
    int64_t before = 1, after = 1;
    std::vector<ValueRef> left, right;
    for (int i = 0; i < count; ++i) {
      if (i == own) continue;
      (i < own ? before : after) *= g.input_spec(i).shape[0];
      (i < own ? left : right).push_back(g.input(i));
    }
    ValueRef grad = g.reshape(g.output_grad(0), {before, rows, after, columns});
    const ParamsRef none = std::make_shared<NoParams>();
    if (!left.empty())
      grad =
          g.mul(grad, g.reshape(g.emit_all("khatri_rao", left, none)[0], {before, 1, 1, columns}));
    if (!right.empty())
      grad =
          g.mul(grad, g.reshape(g.emit_all("khatri_rao", right, none)[0], {1, 1, after, columns}));
    grads[own] = g.emit("sum", {grad}, {{"axis", Shape{0, 2}}});
  }
  return grads;
}

}  // namespace

static const Registration khatri_rao_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("khatri_rao")
              .variadic("args")
              .doc("Column-wise Kronecker product of matrices with equally many columns.")
              .shapes("(m_i, n) each -> (product of m_i, n)")
              .infer(infer_khatri_rao)
              .gradient(grad_khatri_rao)
              .symbol({.count_attribute = "num_args"}));
});

}  // namespace mxlite
