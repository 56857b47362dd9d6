// take, batch_take, pick and their gradients.
#include "cpp/ops/tensor/take.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

void check_index_dtype(const char* op, const TensorSpec& index) {
  MX_CHECK_DTYPE(index.dtype != DType::kBool, op, ": indices must have a numeric dtype, got bool");
}

namespace {

Specs infer_take(const TakeParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  check_index_dtype("take", in[1]);
  const int axis = normalize_axis("take", p.axis, from.ndim());
  MX_CHECK_SHAPE(from[axis] != 0 || count_elements(in[1].shape) <= 0, "take: axis ", axis,
                 " of input a must have at least 1 element, got shape ", from);
  Shape to;
  for (int i = 0; i < axis; ++i) to.push_back(from[i]);
  for (const int64_t n : in[1].shape) to.push_back(n);
  for (int i = axis + 1; i < from.ndim(); ++i) to.push_back(from[i]);
  return {{to, in[0].dtype}};
}

Specs infer_take_backward(const TakeBackwardParams& p, std::span<const TensorSpec> in) {
  const int axis = normalize_axis("_take_backward", p.axis, p.shape.ndim());
  MX_CHECK_SHAPE(in[0].shape.size() * p.shape[axis] == in[1].shape.size() * p.shape.size(),
                 "_take_backward: output_grad must have the size of a take along axis ", axis,
                 " from shape ", p.shape, " with indices of shape ", in[1].shape, ", got shape ",
                 in[0].shape);
  return {{p.shape, in[0].dtype}};
}

std::vector<ValueRef> grad_take(GradBuilder& g) {
  const auto& p = g.params<TakeParams>();
  auto params = std::make_shared<TakeBackwardParams>();
  *params = {g.input_spec(0).shape, p.axis, p.mode};
  return {g.emit("_take_backward", {g.output_grad(0), g.input(1)}, params), {}};
}

std::vector<ValueRef> grad_take_backward(GradBuilder& g) {
  const auto& p = g.params<TakeBackwardParams>();
  auto params = std::make_shared<TakeParams>();
  *params = {p.axis, p.mode};
  return {g.reshape(g.emit("take", {g.output_grad(0), g.input(1)}, params), g.input_spec(0).shape),
          {}};
}

Specs infer_batch_take(const NoParams&, std::span<const TensorSpec> in) {
  check_index_dtype("batch_take", in[1]);
  const Shape& a = in[0].shape;
  MX_CHECK_SHAPE(
      a.ndim() == 2 && may_equal(count_elements(in[1].shape), a[0]),
      "batch_take: a must have 2 dimensions and indices one entry per row of a, got shapes ", a,
      " and ", in[1].shape);
  MX_CHECK_SHAPE(a[1] != 0 || a[0] <= 0, "batch_take: a must have at least 1 column, got shape ",
                 a);
  Shape to = in[1].shape;
  if (to.ndim() == 1) to[0] = merged(to[0], a[0]);
  return {{to, in[0].dtype}};
}

std::vector<ValueRef> grad_batch_take(GradBuilder& g) {
  auto params = std::make_shared<PickBackwardParams>();
  *params = {g.input_spec(0).shape, 1, PickMode::kClip};
  return {g.emit("_pick_backward", {g.output_grad(0), g.input(1)}, params), {}};
}

Specs infer_pick(const PickParams& p, std::span<const TensorSpec> in) {
  check_index_dtype("pick", in[1]);
  const Shape& from = in[0].shape;
  const Shape& index = in[1].shape;
  const int axis = normalize_axis("pick", p.axis, from.ndim());
  Shape kept = from, reduced = from;
  kept[axis] = 1;
  reduced.erase(axis);
  const bool like_kept = may_equal(index, kept), like_reduced = may_equal(index, reduced);
  MX_CHECK_SHAPE(
      like_kept || like_reduced || (reduced.ndim() == 0 && may_equal(count_elements(index), 1)),
      "pick: index must have shape ", reduced, " for data of shape ", from, " picked along axis ",
      axis, ", got ", index);
  MX_CHECK_SHAPE(from[axis] != 0 || count_elements(index) <= 0, "pick: axis ", axis,
                 " of data must have at least 1 element, got shape ", from);
  if (like_kept) {
    kept = merged(kept, index);
    reduced = kept;
    reduced.erase(axis);
  } else if (like_reduced) {
    reduced = merged(reduced, index);
    kept = reduced;
    kept.insert(axis, 1);
  }
  if (p.keepdims) return {{kept, in[0].dtype}};
  if (reduced.ndim() == 0) reduced.push_back(1);  // as 1.x, which has no 0-d arrays
  return {{reduced, in[0].dtype}};
}

// As in MXNet 1.x, an index of unknown shape gets the shape of the result.
void refine_pick(const PickParams& p, PartialShapes& shapes) {
  const Shape &data = shapes.input(0), &index = shapes.input(1);
  if (data.ndim() <= 0 || p.axis < -data.ndim() || p.axis >= data.ndim()) return;
  Shape expected = data;
  expected[normalize_axis("pick", p.axis, data.ndim())] = 1;
  const bool keeps_axis = index.ndim() < 0 ? p.keepdims : index.ndim() == data.ndim();
  if (!keeps_axis && data.ndim() > 1) expected.erase(normalize_axis("pick", p.axis, data.ndim()));
  if (index.ndim() < 0 || index.ndim() == expected.ndim()) shapes.refine_input(1, expected);
}

Specs infer_pick_backward(const PickBackwardParams& p, std::span<const TensorSpec> in) {
  normalize_axis("_pick_backward", p.axis, p.shape.ndim());
  return {{p.shape, in[0].dtype}};
}

std::vector<ValueRef> grad_pick(GradBuilder& g) {
  const auto& p = g.params<PickParams>();
  auto params = std::make_shared<PickBackwardParams>();
  *params = {g.input_spec(0).shape, p.axis, p.mode};
  return {g.emit("_pick_backward", {g.output_grad(0), g.input(1)}, params), {}};
}

std::vector<ValueRef> grad_pick_backward(GradBuilder& g) {
  const auto& p = g.params<PickBackwardParams>();
  Shape index = p.shape;
  index[normalize_axis("_pick_backward", p.axis, index.ndim())] = 1;
  auto params = std::make_shared<PickParams>();
  *params = {p.axis, true, p.mode};
  const ValueRef picked = g.emit("pick", {g.output_grad(0), g.reshape(g.input(1), index)}, params);
  return {g.reshape(picked, g.input_spec(0).shape), {}};
}

}  // namespace

static const Registration take_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<TakeParams>("take")
              .inputs({"a", "indices"})
              .doc("Takes the slices of a at the given indices along one axis.")
              .shapes("a: any shape, indices: any shape -> a with `axis` replaced by indices.shape")
              .infer(infer_take)
              .gradient(grad_take)
              .symbol({.untied_inputs = {1}}));
  ops.add(OpBuilder<TakeBackwardParams>("_take_backward")
              .internal()
              .inputs({"output_grad", "indices"})
              .doc("Zeros to which every slice of output_grad is added at its index.")
              .infer(infer_take_backward)
              .gradient(grad_take_backward));
  ops.add(OpBuilder<NoParams>("batch_take")
              .inputs({"a", "indices"})
              .doc("Takes one element of each row: output[i] = a[i, indices[i]].")
              .shapes("a: (N, n), indices: (N,) -> (N,)")
              .infer(infer_batch_take)
              .gradient(grad_batch_take)
              .symbol({.untied_inputs = {1}}));
  ops.add(
      OpBuilder<PickParams>("pick")
          .alias({"choose_element_0index"})
          .inputs({"data", "index"})
          .doc("Picks one element along an axis for each position of the other axes.")
          .shapes(
              "data: any shape, index: data without `axis` -> shape of index, or size 1 at `axis`")
          .infer(infer_pick)
          .refine(refine_pick)
          .gradient(grad_pick)
          .symbol({.untied_inputs = {1}}));
  ops.add(OpBuilder<PickBackwardParams>("_pick_backward")
              .internal()
              .inputs({"output_grad", "index"})
              .doc("Zeros with output_grad at the picked positions.")
              .infer(infer_pick_backward)
              .gradient(grad_pick_backward));
});

}  // namespace mxlite
