#include "cpp/ops/tensor/pad.h"

#include <memory>
#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/slice.h"

namespace mxlite {
namespace {

Specs infer_pad(const PadParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  MX_CHECK_SHAPE(p.pad_width.size() == 2 * static_cast<size_t>(to.ndim()),
                 "Pad: pad_width must have ", 2 * to.ndim(), " entries for data of shape ", to,
                 ", got ", p.pad_width.size());
  for (const auto& width : p.pad_width) MX_CHECK(width, "Pad: pad_width must be numbers, got None");
  for (int i = 0; i < to.ndim(); ++i) {
    const int64_t widest = std::max(p.before(i), p.after(i));
    MX_CHECK_SHAPE(p.mode != PadMode::kReflect || widest == 0 || may_be_at_least(to[i], widest + 1),
                   "Pad: pad_width of axis ", i,
                   " must be below its length in mode 'reflect', got ", widest,
                   " for data of shape ", to);
    MX_CHECK_SHAPE(p.mode != PadMode::kEdge || widest == 0 || to[i] != 0, "Pad: axis ", i,
                   " must have at least 1 element in mode 'edge', got data of shape ", to);
    to[i] = add_to_dim(to[i], checked_add(p.before(i), p.after(i)));
  }
  return {{to, in[0].dtype}};
}

Specs infer_pad_backward(const PadParams& p, std::span<const TensorSpec> in) {
  Shape to = in[0].shape;
  for (int i = 0; i < to.ndim(); ++i) to[i] -= p.before(i) + p.after(i);
  return {{to, in[0].dtype}};
}

std::vector<ValueRef> grad_pad(GradBuilder& g) {
  const auto& p = g.params<PadParams>();
  if (p.mode != PadMode::kConstant)
    return {g.emit("_pad_backward", {g.output_grad(0)}, g.params_ref())};
  auto slice = std::make_shared<SliceParams>();
  const Shape& from = g.input_spec(0).shape;
  for (int i = 0; i < from.ndim(); ++i) {
    slice->begin.push_back(p.before(i));
    slice->end.push_back(p.before(i) + from[i]);
  }
  return {g.emit("slice", {g.output_grad(0)}, slice)};
}

std::vector<ValueRef> grad_pad_backward(GradBuilder& g) {
  return {g.emit("Pad", {g.output_grad(0)}, g.params_ref())};
}

}  // namespace

static const Registration pad_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<PadParams>("Pad")
              .alias({"pad"})
              .doc("Adds elements before and after each axis: a constant, the nearest element or a "
                   "mirror image.")
              .shapes("(N, C, H, W) or (N, C, D, H, W) -> sizes plus both entries of `pad_width`")
              .infer(infer_pad)
              .gradient(grad_pad)
              .symbol({.names_single_input = true}));
  ops.add(OpBuilder<PadParams>("_pad_backward")
              .internal()
              .inputs({"output_grad"})
              .doc("Adds the gradients of all copies that Pad made of an element.")
              .infer(infer_pad_backward)
              .gradient(grad_pad_backward));
});

}  // namespace mxlite
