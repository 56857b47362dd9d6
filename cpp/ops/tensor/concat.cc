// Concat, stack, SliceChannel, _split_v2.
#include "cpp/ops/tensor/concat.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void check_same_dtype(const char* op, std::span<const TensorSpec> in) {
  MX_CHECK(!in.empty(), op, ": the number of arrays must be at least 1, got 0");
  for (size_t i = 1; i < in.size(); ++i)
    MX_CHECK_DTYPE(in[i].dtype == in[0].dtype, op, ": array ", i, " must have array 0's dtype ",
                   in[0].dtype, ", got ", in[i].dtype);
}

Specs infer_concat(const ConcatParams& p, std::span<const TensorSpec> in) {
  check_same_dtype("Concat", in);
  Shape to = in[0].shape;
  const int axis = normalize_axis("Concat", p.dim, to.ndim());
  for (size_t i = 1; i < in.size(); ++i) {
    const Shape& other = in[i].shape;
    bool fits = other.ndim() == to.ndim();
    for (int d = 0; fits && d < to.ndim(); ++d) fits = d == axis || may_equal(other[d], to[d]);
    MX_CHECK_SHAPE(fits, "Concat: array ", i, " of shape ", other, " cannot be joined along axis ",
                   axis, " with array 0 of shape ", in[0].shape);
    const int64_t length = add_dims(to[axis], other[axis]);
    to = merged(to, other);
    to[axis] = length;
  }
  return {{to, in[0].dtype}};
}

Specs infer_stack(const StackParams& p, std::span<const TensorSpec> in) {
  check_same_dtype("stack", in);
  Shape to = in[0].shape;
  for (size_t i = 1; i < in.size(); ++i) {
    MX_CHECK_SHAPE(may_equal(in[i].shape, to), "stack: array ", i,
                   " must have the shape of the arrays before it, ", to, ", got ", in[i].shape);
    to = merged(to, in[i].shape);
  }
  to.insert(normalize_axis("stack", p.axis, to.ndim() + 1), static_cast<int64_t>(in.size()));
  return {{to, in[0].dtype}};
}

// Removes `axis`. As in MXNet 1.x, which has no 0-d arrays, the result has at least one axis.
Shape without_axis(Shape shape, int axis) {
  shape.erase(axis);
  if (shape.ndim() == 0) shape.push_back(1);
  return shape;
}

Specs infer_slice_channel(const SliceChannelParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  const int axis = normalize_axis("SliceChannel", p.axis, to.ndim());
  MX_CHECK_SHAPE(may_be_multiple(to[axis], p.num_outputs), "SliceChannel: axis ", axis,
                 " of data of shape ", to, " cannot be split into ", p.num_outputs, " equal parts");
  to[axis] = divide_dim(to[axis], p.num_outputs);
  if (p.squeeze_axis) {
    MX_CHECK_SHAPE(may_equal(to[axis], 1),
                   "SliceChannel: with squeeze_axis, parts must have length 1 along axis ", axis,
                   ", got length ", to[axis], " of ", p.num_outputs, " parts of data of shape ",
                   in[0].shape);
    to = without_axis(to, axis);
  }
  Specs specs;
  for (int i = 0; i < p.num_outputs; ++i) specs.push_back({to, in[0].dtype});
  return specs;
}

int count_parts(const SplitV2Params& p) {
  return p.sections > 0 ? p.sections : static_cast<int>(p.indices.size());
}

Specs infer_split_v2(const SplitV2Params& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  const int axis = normalize_axis("_split_v2", p.axis, from.ndim());
  const int64_t length = from[axis];
  const int parts = count_parts(p);
  MX_CHECK(parts > 0, "_split_v2: indices or sections must be given, got neither");
  std::vector<int64_t> begins;
  if (!is_known(length)) {
    begins.assign(static_cast<size_t>(parts), 0);
  } else if (p.sections > 0) {
    for (int64_t i = 0; i < parts; ++i)
      begins.push_back(length / parts * i + std::min(i, length % parts));
  } else {
    for (const auto& index : p.indices) {
      MX_CHECK(index.has_value(), "_split_v2: indices must be integers, got None");
      begins.push_back(std::min(*index, length));
    }
  }
  begins.push_back(length);
  Specs specs;
  for (int i = 0; i < parts; ++i) {
    MX_CHECK(!is_known(length) || (begins[i] >= 0 && begins[i] <= begins[i + 1]),
             "_split_v2: indices must be at least 0 and ascend, got ", begins[i], " before ",
             begins[i + 1]);
    Shape to = from;
    to[axis] = is_known(length) ? begins[i + 1] - begins[i] : kUnknownDim;
    if (p.squeeze_axis) {
      MX_CHECK_SHAPE(may_equal(to[axis], 1),
                     "_split_v2: with squeeze_axis, parts must have length 1 along axis ", axis,
                     ", got length ", to[axis], " of part ", i);
      to = without_axis(to, axis);
    }
    specs.push_back({to, in[0].dtype});
  }
  MX_CHECK(p.sections > 0 || begins[0] == 0, "_split_v2: the first index must be 0, got ",
           begins[0]);
  return specs;
}

std::vector<ValueRef> grad_concat(GradBuilder& g) {
  const int axis =
      normalize_axis("Concat", g.params<ConcatParams>().dim, g.output_spec(0).shape.ndim());
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  int64_t begin = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const int64_t end = begin + g.input_spec(i).shape[axis];
    if (g.needs_grad(i))
      grads[i] = g.num_inputs() == 1
                     ? g.output_grad(0)
                     : g.emit("slice_axis", {g.output_grad(0)},
                              {{"axis", int64_t{axis}}, {"begin", begin}, {"end", end}});
    begin = end;
  }
  return grads;
}

std::vector<ValueRef> grad_stack(GradBuilder& g) {
  const int64_t axis =
      normalize_axis("stack", g.params<StackParams>().axis, g.output_spec(0).shape.ndim());
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  for (int64_t i = 0; i < g.num_inputs(); ++i)
    if (g.needs_grad(static_cast<int>(i)))
      grads[i] = g.reshape(
          g.emit("slice_axis", {g.output_grad(0)}, {{"axis", axis}, {"begin", i}, {"end", i + 1}}),
          g.input_spec(static_cast<int>(i)).shape);
  return grads;
}

// Concatenates the gradients of the parts; if the axis was squeezed, inserts it again first.
std::vector<ValueRef> concat_parts(GradBuilder& g, int axis, bool squeezed) {
  std::vector<ValueRef> parts;
  for (int i = 0; i < g.num_outputs(); ++i) {
    ValueRef part = g.output_grad(i);
    if (squeezed) {
      Shape shape = g.input_spec(0).shape;
      shape[axis] = 1;
      part = g.reshape(part, shape);
    }
    parts.push_back(part);
  }
  if (parts.size() == 1) return parts;
  auto params = std::make_shared<ConcatParams>();
  params->dim = axis;
  return {g.emit_all("Concat", parts, params)[0]};
}

std::vector<ValueRef> grad_slice_channel(GradBuilder& g) {
  const auto& p = g.params<SliceChannelParams>();
  return concat_parts(g, normalize_axis("SliceChannel", p.axis, g.input_spec(0).shape.ndim()),
                      p.squeeze_axis);
}

std::vector<ValueRef> grad_split_v2(GradBuilder& g) {
  const auto& p = g.params<SplitV2Params>();
  return concat_parts(g, normalize_axis("_split_v2", p.axis, g.input_spec(0).shape.ndim()),
                      p.squeeze_axis);
}

// Returns the axis counted from the front. Does not check its range, because `infer` does so later.
int wrapped(int axis, int ndim) { return ((axis % ndim) + ndim) % ndim; }

// Infers extents other than those along `axis`, which are equal in all arrays.
void refine_other_axes(PartialShapes& shapes, int axis) {
  int ndim = -1;
  std::vector<const Shape*> all;
  for (int i = 0; i < shapes.num_outputs(); ++i) all.push_back(&shapes.output(i));
  for (int i = 0; i < shapes.num_inputs(); ++i) all.push_back(&shapes.input(i));
  for (const Shape* shape : all) {
    if (shape->ndim() < 0) continue;
    if (ndim >= 0 && shape->ndim() != ndim) return;
    ndim = shape->ndim();
  }
  if (ndim <= 0) return;
  axis = wrapped(axis, ndim);
  Shape joint = Shape::filled(ndim, -1);
  for (const Shape* shape : all)
    for (int i = 0; i < shape->ndim(); ++i)
      if (i != axis && (*shape)[i] != -1) joint[i] = (*shape)[i];
  const auto with_joint = [&](const Shape& old) {
    Shape shape = joint;
    shape[axis] = old.ndim() < 0 ? -1 : old[axis];
    return shape;
  };
  for (int i = 0; i < shapes.num_outputs(); ++i)
    shapes.refine_output(i, with_joint(shapes.output(i)));
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_input(i, with_joint(shapes.input(i)));
}

void refine_stack(const StackParams& p, PartialShapes& shapes) {
  Shape one = Shape::unknown();
  for (int i = 0; i < shapes.num_inputs(); ++i) {
    const Shape& other = shapes.input(i);
    if (one.ndim() < 0)
      one = other;
    else if (other.ndim() == one.ndim())
      one = merged(one, other);
  }
  if (one.ndim() >= 0) {
    one.insert(wrapped(p.axis, one.ndim() + 1), shapes.num_inputs());
    shapes.refine_output(0, one);
  }
  one = shapes.output(0);
  if (one.ndim() <= 0) return;
  one.erase(wrapped(p.axis, one.ndim()));
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_input(i, one);
}

// Infers the other axes of the input from the outputs, which lack the split axis.
void refine_squeezed(PartialShapes& shapes, int axis) {
  const Shape whole = shapes.input(0);
  for (int i = 0; i < shapes.num_outputs(); ++i) {
    Shape part = shapes.output(i);
    if (part.ndim() <= 0 || whole.ndim() != part.ndim() + 1) continue;
    const int at = wrapped(axis, whole.ndim());
    part.insert(at, whole[at]);
    shapes.refine_input(0, part);
  }
}

// Infers the input of a split into equal parts from the parts.
void refine_slice_channel(const SliceChannelParams& p, PartialShapes& shapes) {
  for (int i = 0; i < shapes.num_outputs(); ++i) {
    Shape part = shapes.output(i);
    if (part.ndim() < 0) continue;
    const int ndim = part.ndim() + (p.squeeze_axis ? 1 : 0);
    if (ndim == 0) continue;
    const int axis = wrapped(p.axis, ndim);
    if (p.squeeze_axis) {
      const Shape& whole = shapes.input(0);
      if (whole.ndim() != ndim) continue;
      part.insert(axis, whole[axis]);
    } else if (part[axis] != -1) {
      part[axis] = checked_mul(part[axis], p.num_outputs);
    }
    shapes.refine_input(0, part);
  }
  if (!p.squeeze_axis) refine_other_axes(shapes, p.axis);
}

}  // namespace

static const Registration concat_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<ConcatParams>("Concat")
              .alias({"concat", "_rnn_param_concat"})
              .variadic("data")
              .doc("Joins arrays along an existing axis.")
              .shapes("equal shapes except along `dim` -> sum of the sizes along `dim`")
              .infer(infer_concat)
              .gradient(grad_concat)
              .drawn("shape")
              .amp(AmpClass::kWidest)
              .symbol({.count_attribute = "num_args"})
              .refine([](const ConcatParams& p, PartialShapes& shapes) {
                refine_other_axes(shapes, p.dim);
              }));
  ops.add(OpBuilder<StackParams>("stack")
              .variadic("data")
              .doc("Joins arrays of the same shape along a new axis.")
              .shapes("equal shapes -> their number inserted at `axis`")
              .infer(infer_stack)
              .refine(refine_stack)
              .gradient(grad_stack)
              .amp(AmpClass::kWidest)
              .symbol({.count_attribute = "num_args"}));
  ops.add(OpBuilder<SliceChannelParams>("SliceChannel")
              .alias({"split"})
              .doc("Splits an array into equal parts along one axis.")
              .shapes("any shape -> `num_outputs` arrays, `axis` divided by their number")
              .output_count([](const SliceChannelParams& p, int) { return p.num_outputs; })
              .infer(infer_slice_channel)
              .gradient(grad_slice_channel)
              .symbol({.output_names = {"output0"}, .names_single_input = true})
              .refine(refine_slice_channel));
  ops.add(OpBuilder<SplitV2Params>("_split_v2")
              .doc("Splits an array along one axis at given indices, or into parts of about equal "
                   "length.")
              .output_count([](const SplitV2Params& p, int) { return count_parts(p); })
              .infer(infer_split_v2)
              .gradient(grad_split_v2)
              .refine([](const SplitV2Params& p, PartialShapes& shapes) {
                if (p.squeeze_axis)
                  refine_squeezed(shapes, p.axis);
                else
                  refine_other_axes(shapes, p.axis);
              }));
});

}  // namespace mxlite
