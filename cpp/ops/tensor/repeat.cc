#include "cpp/ops/tensor/repeat.h"

#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

RepeatView repeat_view(const RepeatParams& p, const Shape& shape) {
  if (!p.axis) return {1, shape.size(), 1};
  const int axis = normalize_axis("repeat", *p.axis, shape.ndim());
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.ndim())};
}

namespace {

Specs infer_repeat(const RepeatParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  if (p.axis) {
    int64_t& length = to[normalize_axis("repeat", *p.axis, to.ndim())];
    length = multiply_dims(length, p.repeats);
  } else {
    to = {multiply_dims(count_elements(to), p.repeats)};
  }
  return {{to, in[0].dtype}};
}

Specs infer_tile(const TileParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  Shape to = Shape::filled(std::max(from.ndim(), p.reps.ndim()), 1);
  for (int i = 0; i < from.ndim(); ++i) to[to.ndim() - from.ndim() + i] = from[i];
  for (int i = 0; i < p.reps.ndim(); ++i) {
    int64_t& length = to[to.ndim() - p.reps.ndim() + i];
    length = multiply_dims(length, p.reps[i]);
  }
  return {{to, in[0].dtype}};
}

std::vector<ValueRef> grad_repeat(GradBuilder& g) {
  const auto& p = g.params<RepeatParams>();
  const Shape& from = g.input_spec(0).shape;
  const RepeatView v = repeat_view(p, from);
  const ValueRef apart = g.reshape(g.output_grad(0), {v.outer, v.length, p.repeats, v.inner});
  return {g.reshape(g.emit("sum", {apart}, {{"axis", Shape{2}}}), from)};
}

// Handles one axis after the other: reshapes to (before, reps, rest) and sums over reps. Handling
// all axes in one step could need more dimensions than a Shape can have.
std::vector<ValueRef> grad_tile(GradBuilder& g) {
  const auto& p = g.params<TileParams>();
  const Shape& from = g.input_spec(0).shape;
  Shape shape = g.output_spec(0).shape;
  ValueRef grad = g.output_grad(0);
  for (int i = 0; i < p.reps.ndim(); ++i) {
    const int axis = shape.ndim() - p.reps.ndim() + i;
    if (p.reps[i] == 1) continue;
    const int in_axis = axis - (shape.ndim() - from.ndim());
    const int64_t length = in_axis >= 0 ? from[in_axis] : 1;
    const int64_t before = shape.product(0, axis);
    const int64_t rest = length * shape.product(axis + 1, shape.ndim());
    grad = g.emit("sum", {g.reshape(grad, {before, p.reps[i], rest})}, {{"axis", Shape{1}}});
    shape[axis] = length;
  }
  return {g.reshape(grad, from)};
}

}  // namespace

static const Registration repeat_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<RepeatParams>("repeat")
              .doc("Repeats each element along one axis.")
              .shapes("any shape -> `axis` times `repeats`; without `axis` (size * repeats,)")
              .infer(infer_repeat)
              .gradient(grad_repeat));
  ops.add(OpBuilder<TileParams>("tile")
              .doc("Repeats the whole array along each axis.")
              .shapes("any shape -> sizes times `reps`")
              .infer(infer_tile)
              .gradient(grad_tile));
});

}  // namespace mxlite
