// transpose, SwapAxis, reverse.
#include "cpp/ops/tensor/transpose.h"

#include <vector>

#include "cpp/ops/registration.h"

namespace mxlite {

Shape resolve_axes(const TransposeParams& p, int ndim) {
  Shape axes;
  if (p.axes.ndim() == 0) {
    for (int i = ndim - 1; i >= 0; --i) axes.push_back(i);
    return axes;
  }
  MX_CHECK_SHAPE(p.axes.ndim() == ndim, "transpose: axes must have ", ndim,
                 " entries for an array with ", ndim, " dimensions, got ", p.axes);
  bool used[Shape::kMaxNdim] = {};
  for (const int64_t given : p.axes) {
    const int axis = normalize_axis("transpose", given, ndim);
    MX_CHECK(!used[axis], "transpose: axes ", p.axes, " name axis ", axis, " twice");
    used[axis] = true;
    axes.push_back(axis);
  }
  return axes;
}

Shape resolve_axes(const SwapAxisParams& p, int ndim) {
  Shape axes;
  for (int i = 0; i < ndim; ++i) axes.push_back(i);
  std::swap(axes[normalize_axis("SwapAxis", p.dim1, ndim)],
            axes[normalize_axis("SwapAxis", p.dim2, ndim)]);
  return axes;
}

namespace {

template <class P>
Specs infer_permuted(const P& p, std::span<const TensorSpec> in) {
  const Shape& from = in[0].shape;
  Shape to = from;
  const Shape axes = resolve_axes(p, from.ndim());
  for (int i = 0; i < to.ndim(); ++i) to[i] = from[static_cast<int>(axes[i])];
  return {{to, in[0].dtype}};
}

Specs infer_reverse_axes(const ReverseParams& p, std::span<const TensorSpec> in) {
  for (const int64_t axis : p.axis) normalize_axis("reverse", axis, in[0].shape.ndim());
  return {in[0]};
}

std::vector<ValueRef> grad_transpose(GradBuilder& g) {
  const Shape axes = resolve_axes(g.params<TransposeParams>(), g.input_spec(0).shape.ndim());
  Shape inverse = axes;
  for (int i = 0; i < axes.ndim(); ++i) inverse[static_cast<int>(axes[i])] = i;
  return {g.emit("transpose", {g.output_grad(0)}, {{"axes", inverse}})};
}

std::vector<ValueRef> grad_swap_axis(GradBuilder& g) {
  return {g.emit("SwapAxis", {g.output_grad(0)}, g.params_ref())};
}

std::vector<ValueRef> grad_reverse_axes(GradBuilder& g) {
  return {g.emit("reverse", {g.output_grad(0)}, g.params_ref())};
}

void refine_transpose(const TransposeParams& p, PartialShapes& shapes) {
  const Shape& out = shapes.output(0);
  if (out.ndim() < 0) return;
  const Shape axes = resolve_axes(p, out.ndim());
  Shape before = out;
  for (int i = 0; i < out.ndim(); ++i) before[static_cast<int>(axes[i])] = out[i];
  shapes.refine_input(0, before);
}

}  // namespace

static const Registration transpose_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<TransposeParams>("transpose")
              .doc("Permutes the axes of an array.")
              .shapes("any shape -> sizes in the order `axes`, reversed by default")
              .infer(infer_permuted<TransposeParams>)
              .gradient(grad_transpose)
              .refine(refine_transpose));
  ops.add(OpBuilder<SwapAxisParams>("SwapAxis")
              .alias({"swapaxes"})
              .doc("Exchanges two axes of an array.")
              .infer(infer_permuted<SwapAxisParams>)
              .gradient(grad_swap_axis)
              .symbol({.names_single_input = true}));
  ops.add(OpBuilder<ReverseParams>("reverse")
              .alias({"flip"})
              .doc("Reverses the order of elements along the given axes.")
              .shapes("any shape -> the same shape")
              .infer(infer_reverse_axes)
              .refine(refine_like_first)
              .gradient(grad_reverse_axes));
});

}  // namespace mxlite
