// slice, slice_axis, slice_like, their gradient _slice_backward, and assignment to slices.
#include "cpp/ops/tensor/slice.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {

SliceRegion resolve_slice(const char* op, const OptionalInts& begin, const OptionalInts& end,
                          const OptionalInts& step, const Shape& shape) {
  const auto count = static_cast<size_t>(shape.ndim());
  MX_CHECK_SHAPE(begin.size() <= count && end.size() <= count && step.size() <= count, op,
                 ": the number of indices must be at most ", count, " for an array of shape ",
                 shape, ", got ", std::max({begin.size(), end.size(), step.size()}));
  SliceRegion r{shape, Shape::filled(shape.ndim(), 0), Shape::filled(shape.ndim(), 1)};
  const auto entry = [](const OptionalInts& values, int axis) {
    const auto i = static_cast<size_t>(axis);
    return i < values.size() ? values[i] : std::nullopt;
  };
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    const int64_t length = shape[axis];
    const int64_t s = entry(step, axis).value_or(1);
    MX_CHECK(s != 0, op, ": step must not be 0, got 0 for axis ", axis);
    r.step[axis] = s;
    if (!is_known(length)) continue;  // the slice's length is unknown, too
    const int64_t low = s > 0 ? 0 : -1, high = s > 0 ? length : length - 1;
    const auto place = [&](std::optional<int64_t> given, int64_t otherwise) {
      if (!given) return otherwise;
      return std::clamp(*given < 0 ? *given + length : *given, low, high);
    };
    const int64_t b = place(entry(begin, axis), s > 0 ? low : high);
    const int64_t e = place(entry(end, axis), s > 0 ? high : low);
    const int64_t span = s > 0 ? e - b : b - e, stride = s > 0 ? s : -s;
    r.begin[axis] = b;
    r.shape[axis] = span <= 0 ? 0 : (span - 1) / stride + 1;
  }
  return r;
}

SliceRegion resolve_slice(const SliceAxisParams& p, const Shape& shape) {
  const int axis = normalize_axis("slice_axis", p.axis, shape.ndim());
  const int64_t length = shape[axis];
  SliceRegion r{shape, Shape::filled(shape.ndim(), 0), Shape::filled(shape.ndim(), 1)};
  if (!is_known(length)) return r;  // the slice's length is unknown, too
  const int64_t begin = p.begin < 0 ? p.begin + length : p.begin;
  const int64_t end = !p.end ? length : *p.end < 0 ? *p.end + length : *p.end;
  MX_CHECK_KIND(begin >= 0 && begin <= end && end <= length, ErrorKind::kIndex,
                "slice_axis: begin and end must be an ascending range within axis ", axis,
                " of data of shape ", shape, ", got ", p.begin, " and ", p.end.value_or(length));
  r.begin[axis] = begin;
  r.shape[axis] = end - begin;
  return r;
}

namespace {

SliceRegion region_of(const SliceParams& p, const Shape& shape) {
  return resolve_slice("slice", p.begin, p.end, p.step, shape);
}

Specs infer_slice(const SliceParams& p, std::span<const TensorSpec> in) {
  return {{region_of(p, in[0].shape).shape, in[0].dtype}};
}

Specs infer_slice_axis(const SliceAxisParams& p, std::span<const TensorSpec> in) {
  return {{resolve_slice(p, in[0].shape).shape, in[0].dtype}};
}

Specs infer_slice_like(const SliceLikeParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  const Shape& like = in[1].shape;
  const auto cut = [&](int axis, int like_axis) {
    MX_CHECK_SHAPE(may_be_at_most(like[like_axis], to[axis]), "slice_like: axis ", axis,
                   " of data must be at least as long as the axis of shape_like, got shapes ",
                   in[0].shape, " and ", like);
    to[axis] = like[like_axis];
  };
  if (p.axes.ndim() == 0) {
    MX_CHECK_SHAPE(like.ndim() == to.ndim(),
                   "slice_like: if axes is empty, data and shape_like must have the same number of "
                   "dimensions, got shapes ",
                   to, " and ", like);
    for (int i = 0; i < to.ndim(); ++i) cut(i, i);
  }
  for (const int64_t axis : p.axes)
    cut(normalize_axis("slice_like", axis, to.ndim()),
        normalize_axis("slice_like", axis, like.ndim()));
  return {{to, in[0].dtype}};
}

Specs infer_slice_backward(const SliceBackwardParams& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  MX_CHECK_SHAPE(from.ndim() == p.shape.ndim() && p.begin.ndim() == from.ndim() &&
                     p.step.ndim() == from.ndim(),
                 "_slice_backward: data of shape ", from, " cannot be placed into ", p.shape);
  for (int i = 0; i < from.ndim(); ++i) {
    const int64_t last = p.begin[i] + (from[i] - 1) * p.step[i];
    MX_CHECK_SHAPE(from[i] == 0 ||
                       (std::min(p.begin[i], last) >= 0 && std::max(p.begin[i], last) < p.shape[i]),
                   "_slice_backward: data of shape ", from, " placed from ", p.begin,
                   " does not fit ", p.shape);
  }
  return {{p.shape, in[0].dtype}};
}

void check_assigned(const char* op, const Shape& region, const TensorSpec& lhs,
                    const TensorSpec& rhs) {
  MX_CHECK_DTYPE(lhs.dtype == rhs.dtype, op, ": rhs must have the dtype of lhs, ", lhs.dtype,
                 ", got ", rhs.dtype);
  bool fits = rhs.shape.ndim() <= region.ndim();
  const int lead = region.ndim() - rhs.shape.ndim();
  for (int i = 0; fits && i < rhs.shape.ndim(); ++i)
    fits = rhs.shape[i] == 1 || may_equal(rhs.shape[i], region[i + lead]);
  MX_CHECK_SHAPE(fits, op, ": rhs of shape ", rhs.shape, " cannot be written to a slice of shape ",
                 region);
}

Specs infer_slice_assign(const SliceParams& p, std::span<const TensorSpec> in) {
  check_assigned("_slice_assign", region_of(p, in[0].shape).shape, in[0], in[1]);
  return {in[0]};
}

Specs infer_slice_assign_scalar(const SliceAssignScalarParams& p, std::span<const TensorSpec> in) {
  resolve_slice("_slice_assign_scalar", p.begin, p.end, p.step, in[0].shape);
  return {in[0]};
}

ValueRef place_gradient(GradBuilder& g, const SliceRegion& r) {
  auto params = std::make_shared<SliceBackwardParams>();
  params->shape = g.input_spec(0).shape;
  params->begin = r.begin;
  params->step = r.step;
  return g.emit("_slice_backward", {g.output_grad(0)}, params);
}

std::vector<ValueRef> grad_slice(GradBuilder& g) {
  return {place_gradient(g, region_of(g.params<SliceParams>(), g.input_spec(0).shape))};
}

std::vector<ValueRef> grad_slice_axis(GradBuilder& g) {
  return {place_gradient(g, resolve_slice(g.params<SliceAxisParams>(), g.input_spec(0).shape))};
}

std::vector<ValueRef> grad_slice_like(GradBuilder& g) {
  const Shape& to = g.output_spec(0).shape;
  return {place_gradient(g, {to, Shape::filled(to.ndim(), 0), Shape::filled(to.ndim(), 1)}), {}};
}

std::vector<ValueRef> grad_slice_backward(GradBuilder& g) {
  const auto& p = g.params<SliceBackwardParams>();
  const Shape& from = g.input_spec(0).shape;
  auto params = std::make_shared<SliceParams>();
  for (int i = 0; i < from.ndim(); ++i) {
    const int64_t end = p.begin[i] + from[i] * p.step[i];
    params->begin.push_back(p.begin[i]);
    // A negative end (negative step down to index 0) becomes None: -1 would mean the last element.
    params->end.push_back(end < 0 ? std::nullopt : std::optional<int64_t>(end));
    params->step.push_back(p.step[i]);
  }
  return {g.emit("slice", {g.output_grad(0)}, params)};
}

std::vector<ValueRef> grad_slice_assign(GradBuilder& g) {
  const auto& p = g.params<SliceParams>();
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) {
    auto params = std::make_shared<SliceAssignScalarParams>();
    params->begin = p.begin;
    params->end = p.end;
    params->step = p.step;
    grads[0] = g.emit("_slice_assign_scalar", {g.output_grad(0)}, params);
  }
  if (g.needs_grad(1))
    grads[1] = g.sum_to(g.emit("slice", {g.output_grad(0)}, g.params_ref()), g.input_spec(1).shape);
  return grads;
}

std::vector<ValueRef> grad_slice_assign_scalar(GradBuilder& g) {
  auto params = std::make_shared<SliceAssignScalarParams>(g.params<SliceAssignScalarParams>());
  params->scalar = 0;
  return {g.emit("_slice_assign_scalar", {g.output_grad(0)}, params)};
}

}  // namespace

static const Registration slice_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<SliceParams>("slice")
              .alias({"crop"})
              .doc("Returns the slice begin:end:step of an array, along each axis.")
              .shapes("any shape -> sizes of begin:end:step")
              .infer(infer_slice)
              .gradient(grad_slice));
  ops.add(OpBuilder<SliceAxisParams>("slice_axis")
              .doc("Returns the slice begin:end of an array along one axis.")
              .shapes("any shape -> end - begin along `axis`")
              .infer(infer_slice_axis)
              .gradient(grad_slice_axis));
  ops.add(OpBuilder<SliceLikeParams>("slice_like")
              .inputs({"data", "shape_like"})
              .doc("Cuts data to the lengths of shape_like, from the start of each axis.")
              .infer(infer_slice_like)
              .gradient(grad_slice_like));
  ops.add(OpBuilder<SliceBackwardParams>("_slice_backward")
              .internal()
              .doc("Zeros with data placed where a slice was taken.")
              .infer(infer_slice_backward)
              .gradient(grad_slice_backward));
  ops.add(OpBuilder<SliceParams>("_slice_assign")
              .alias({"_crop_assign"})
              .inputs({"lhs", "rhs"})
              .doc("Returns lhs with the slice begin:end:step replaced by rhs.")
              .infer(infer_slice_assign)
              .refine(refine_like_first)
              .gradient(grad_slice_assign)
              .inplace(0, 0));
  ops.add(OpBuilder<SliceAssignScalarParams>("_slice_assign_scalar")
              .alias({"_crop_assign_scalar"})
              .doc("Returns data with the slice begin:end:step replaced by one value.")
              .infer(infer_slice_assign_scalar)
              .refine(refine_like_first)
              .gradient(grad_slice_assign_scalar)
              .inplace(0, 0));
});

}  // namespace mxlite
