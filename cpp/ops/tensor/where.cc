// where: values of x or y, chosen by a condition of the same shape or one value per row.
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer(const NoParams&, std::span<const TensorSpec> in) {
  const TensorSpec &condition = in[0], &x = in[1], &y = in[2];
  MX_CHECK_SHAPE(x.shape == y.shape, "where: x of shape ", x.shape, " and y of shape ", y.shape,
                 " given, equal shapes expected");
  MX_CHECK_DTYPE(x.dtype == y.dtype, "where: x of dtype ", x.dtype, " and y of dtype ", y.dtype,
                 " given, equal dtypes expected");
  const bool rows =
      condition.shape.ndim() == 1 && x.shape.ndim() > 0 && condition.shape[0] == x.shape[0];
  MX_CHECK_SHAPE(condition.shape == x.shape || rows, "where: condition of shape ", condition.shape,
                 " given, x's shape ", x.shape, " or one value per row of x expected");
  return {x};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  const ValueRef condition = g.input(0);
  const ValueRef zeros = g.zeros(g.output_spec(0));
  std::vector<ValueRef> grads(3);
  if (g.needs_grad(1)) grads[1] = g.emit("where", {condition, g.output_grad(0), zeros});
  if (g.needs_grad(2)) grads[2] = g.emit("where", {condition, zeros, g.output_grad(0)});
  return grads;
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("where")
              .inputs({"condition", "x", "y"})
              .doc("x where condition is not 0, else y.")
              .infer(infer)
              .gradient(gradient)
              .amp(AmpClass::kWidest)
              .inplace(1, 0)
              .inplace(2, 0)
              .free_types({0})
              .forward_shapes([](std::span<const Shape> in, std::span<Shape> out) {
                if (in[0].is_known()) return;  // a condition of few dimensions may choose rows
                for (Shape& shape : out) shape = Shape::unknown();
              })
              .build());
});

}  // namespace mxlite
