// where: x where the condition is true, else y. The condition has x's shape or one value per row.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_where(const NoParams&, std::span<const TensorSpec> in) {
  const TensorSpec &condition = in[0], &x = in[1], &y = in[2];
  MX_CHECK_SHAPE(may_equal(x.shape, y.shape), "where: y must have the shape of x ", x.shape,
                 ", got ", y.shape);
  MX_CHECK_DTYPE(x.dtype == y.dtype, "where: y must have the dtype of x ", x.dtype, ", got ",
                 y.dtype);
  Shape to = merged(x.shape, y.shape);
  const bool rows =
      condition.shape.ndim() == 1 && to.ndim() > 0 && may_equal(condition.shape[0], to[0]);
  MX_CHECK_SHAPE(may_equal(condition.shape, to) || rows,
                 "where: condition must have the shape of x ", x.shape,
                 " or one value per row of x, got ", condition.shape);
  if (!condition.shape.is_known()) return {{Shape::unknown(), x.dtype}};  // as 1.x
  if (rows)
    to[0] = condition.shape[0];
  else
    to = condition.shape;
  return {{to, x.dtype}};
}

// x, y and the result have one shape, which is inferred once the condition's is known, as in 1.x.
void refine(const NoParams&, PartialShapes& shapes) {
  if (!shapes.input(0).is_known()) return;
  for (const int i : {1, 2}) shapes.refine_output(0, shapes.input(i));
  for (const int i : {1, 2}) shapes.refine_input(i, shapes.output(0));
}

std::vector<ValueRef> where_gradient(GradBuilder& g) {
  const ValueRef condition = g.input(0);
  const ValueRef zeros = g.zeros(g.output_spec(0));
  std::vector<ValueRef> grads(3);
  if (g.needs_grad(1)) grads[1] = g.emit("where", {condition, g.output_grad(0), zeros});
  if (g.needs_grad(2)) grads[2] = g.emit("where", {condition, zeros, g.output_grad(0)});
  return grads;
}

}  // namespace

static const Registration where_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("where")
              .inputs({"condition", "x", "y"})
              .doc("Selects elements of x where condition is not 0, and of y elsewhere.")
              .infer(infer_where)
              .refine(refine)
              .gradient(where_gradient)
              .amp(AmpClass::kWidest)
              .storage({.dense_result = true})
              .inplace(1, 0)
              .inplace(2, 0)
              .symbol({.untied_inputs = {0}}));
});

}  // namespace mxlite
