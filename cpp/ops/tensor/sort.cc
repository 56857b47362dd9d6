// sort, argsort, topk. Only gradients need int64 indices, so they run argsort or topk once more.
#include "cpp/ops/tensor/sort.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

SortView sort_view(const char* op, std::optional<int> axis, const Shape& shape) {
  if (!axis) return {1, shape.size(), 1};
  const int a = normalize_axis(op, *axis, shape.ndim());
  return {shape.product(0, a), shape[a], shape.product(a + 1, shape.ndim())};
}

namespace {

Shape sorted_shape(const char* op, std::optional<int> axis, const Shape& shape) {
  if (!axis) return {count_elements(shape)};
  normalize_axis(op, *axis, shape.ndim());
  return shape;
}

Specs infer_sort(const SortParams& p, std::span<const TensorSpec> in) {
  return {{sorted_shape("sort", p.axis, in[0].shape), in[0].dtype}};
}

Specs infer_argsort(const ArgsortParams& p, std::span<const TensorSpec> in) {
  return {{sorted_shape("argsort", p.axis, in[0].shape), p.dtype}};
}

Specs infer_topk(const TopkParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  Shape to = sorted_shape("topk", p.axis, from);
  const int axis = p.axis ? normalize_axis("topk", *p.axis, from.ndim()) : 0;
  MX_CHECK(may_be_at_least(to[axis], p.k), "topk: k must be at most ", to[axis],
           ", the length of the axis of data of shape ", from, ", got ", p.k);
  if (p.k > 0) to[axis] = p.k;
  const TensorSpec value{to, in[0].dtype}, indices{to, p.dtype};
  switch (p.ret_typ) {
    case TopkResult::kValue:
      return {value};
    case TopkResult::kMask:
      return {in[0]};
    case TopkResult::kBoth:
      return {value, indices};
    default:
      return {indices};
  }
}

// Returns `shape` with the axis as long as in `other`, or unchanged if numbers of axes differ.
Shape with_axis_of(Shape shape, int axis, const Shape& other) {
  if (shape.ndim() == other.ndim()) shape[axis] = other[axis];
  return shape;
}

Specs infer_take_along_axis(const AlongAxisParams& p, std::span<const TensorSpec> in) {
  const int axis = normalize_axis("_take_along_axis", p.axis, in[0].shape.ndim());
  MX_CHECK_SHAPE(in[1].shape.ndim() == in[0].shape.ndim() &&
                     may_equal(in[1].shape, with_axis_of(in[0].shape, axis, in[1].shape)),
                 "_take_along_axis: indices must have the shape of data, ", in[0].shape,
                 ", except along axis ", axis, ", got ", in[1].shape);
  MX_CHECK_SHAPE(in[0].shape[axis] != 0 || count_elements(in[1].shape) <= 0,
                 "_take_along_axis: axis ", axis, " of data of shape ", in[0].shape,
                 " has no elements to take");
  return {{merged(in[1].shape, with_axis_of(in[0].shape, axis, in[1].shape)), in[0].dtype}};
}

Specs infer_put_along_axis(const PutAlongAxisParams& p, std::span<const TensorSpec> in) {
  const int axis = normalize_axis("_put_along_axis", p.axis, p.shape.ndim());
  MX_CHECK_SHAPE(may_equal(in[0].shape, in[1].shape) && in[0].shape.ndim() == p.shape.ndim() &&
                     may_equal(in[0].shape, with_axis_of(p.shape, axis, in[0].shape)),
                 "_put_along_axis: data and indices must have shape ", p.shape,
                 " except along axis ", axis, ", got ", in[0].shape, " and ", in[1].shape);
  MX_CHECK_SHAPE(p.shape[axis] != 0 || count_elements(in[0].shape) <= 0, "_put_along_axis: axis ",
                 axis, " of shape ", p.shape, " has no elements for data of shape ", in[0].shape);
  return {{p.shape, in[0].dtype}};
}

// Returns zeros with `grad` scattered to `indices` along the sorted axis.
ValueRef put_back(GradBuilder& g, ValueRef grad, ValueRef indices, std::optional<int> axis) {
  const Shape& from = g.input_spec(0).shape;
  auto params = std::make_shared<PutAlongAxisParams>();
  params->shape = axis ? from : Shape{from.size()};
  params->axis = axis.value_or(0);
  return g.reshape(g.emit("_put_along_axis", {grad, indices}, params), from);
}

std::vector<ValueRef> grad_sort(GradBuilder& g) {
  const auto& p = g.params<SortParams>();
  auto argsort = std::make_shared<ArgsortParams>();
  *argsort = {p.axis, p.is_ascend, DType::kInt64};
  return {put_back(g, g.output_grad(0), g.emit("argsort", {g.input(0)}, argsort), p.axis)};
}

std::vector<ValueRef> grad_topk(GradBuilder& g) {
  const auto& p = g.params<TopkParams>();
  if (p.ret_typ == TopkResult::kIndices || p.ret_typ == TopkResult::kMask)
    return {g.zeros(g.input_spec(0))};
  auto indices = std::make_shared<TopkParams>(p);
  indices->ret_typ = TopkResult::kIndices;
  indices->dtype = DType::kInt64;
  return {put_back(g, g.output_grad(0), g.emit("topk", {g.input(0)}, indices), p.axis)};
}

std::vector<ValueRef> grad_take_along_axis(GradBuilder& g) {
  auto params = std::make_shared<PutAlongAxisParams>();
  *params = {g.input_spec(0).shape, g.params<AlongAxisParams>().axis};
  return {g.emit("_put_along_axis", {g.output_grad(0), g.input(1)}, params), {}};
}

std::vector<ValueRef> grad_put_along_axis(GradBuilder& g) {
  auto params = std::make_shared<AlongAxisParams>();
  params->axis = g.params<PutAlongAxisParams>().axis;
  return {g.emit("_take_along_axis", {g.output_grad(0), g.input(1)}, params), {}};
}

}  // namespace

static const Registration sort_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<SortParams>("sort")
              .doc("Returns the values sorted along one axis; NaN counts as the largest value.")
              .infer(infer_sort)
              .gradient(grad_sort)
              .total_outputs(2));
  ops.add(
      OpBuilder<ArgsortParams>("argsort")
          .doc("Returns the indices that sort data along one axis; equal values keep their order.")
          .infer(infer_argsort)
          .amp(AmpClass::kFloat32)
          .zero_gradient()
          .symbol(
              {.constant_output = true, .untied_inputs = {0}, .output_type = OutputType::kDtype}));
  ops.add(OpBuilder<TopkParams>("topk")
              .doc("Returns the k largest or smallest values along one axis, or their indices, in "
                   "order.")
              .shapes("any shape -> `k` along `axis`; ret_typ='both': two arrays")
              .output_count(
                  [](const TopkParams& p, int) { return p.ret_typ == TopkResult::kBoth ? 2 : 1; })
              .infer(infer_topk)
              .amp(AmpClass::kFloat32)
              .gradient(grad_topk)
              .symbol({.constant_output = true, .untied_inputs = {0}})
              .total_outputs([](const TopkParams& p, int visible) {
                return p.ret_typ == TopkResult::kValue ? 2 : visible;
              })
              .types([](const TopkParams& p, KnownTypes in, KnownTypes out) {
                for (size_t i = 0; i < out.size(); ++i) {
                  const bool values = p.ret_typ == TopkResult::kValue ||
                                      p.ret_typ == TopkResult::kMask ||
                                      (p.ret_typ == TopkResult::kBoth && i == 0);
                  if (!out[i]) out[i] = values ? in[0] : p.dtype;
                }
              }));
  ops.add(OpBuilder<AlongAxisParams>("_take_along_axis")
              .inputs({"data", "indices"})
              .doc("Returns the elements at the given indices along one axis, for each position of "
                   "the other axes; indices must be distinct.")
              .infer(infer_take_along_axis)
              .gradient(grad_take_along_axis));
  ops.add(OpBuilder<PutAlongAxisParams>("_put_along_axis")
              .inputs({"data", "indices"})
              .doc("Array of zeros with data written at the given indices along one axis; indices "
                   "must be distinct.")
              .infer(infer_put_along_axis)
              .gradient(grad_put_along_axis));
});

}  // namespace mxlite
