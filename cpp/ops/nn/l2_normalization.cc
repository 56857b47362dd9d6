#include "cpp/ops/nn/l2_normalization.h"

#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_l2_normalization(const L2NormalizationParams& p, std::span<const TensorSpec> in) {
  check_floating("L2Normalization", "data", in[0]);
  check_min_ndim("L2Normalization", in[0].shape, p.mode == L2Mode::kInstance ? 1 : 3);
  return Specs{in[0]};
}

std::vector<ValueRef> l2_normalization_composite_gradient(GradBuilder& g) {
  const auto& p = g.params<L2NormalizationParams>();
  const Shape& shape = g.input_spec(0).shape;
  const ChannelBlocks b = p.blocks(shape);
  const Shape view{b.outer, b.channels, b.inner}, axis{1};
  const ValueRef x = g.reshape(g.input(0), view), dy = g.reshape(g.output_grad(0), view);
  const ValueRef squares = composite::sum_kept(g, g.emit("square", {x}), axis);
  const ValueRef inverse = g.emit("rsqrt", {g.add_scalar(squares, p.eps)});
  const ValueRef y = g.mul(x, inverse);
  const ValueRef along = g.mul(y, composite::sum_kept(g, g.mul(dy, y), axis));
  return {g.reshape(g.mul(g.sub(dy, along), inverse), shape)};
}

std::vector<ValueRef> l2_normalization_gradient(GradBuilder& g) {
  return {g.emit("_l2_normalization_backward", {g.output_grad(0), g.input(0)}, g.params_ref())};
}

}  // namespace

static const Registration l2_normalization_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<L2NormalizationParams>("L2Normalization")
              .doc("Divides elements by the L2 norm of all elements that mode groups together.")
              .infer(infer_l2_normalization)
              .gradient(l2_normalization_gradient)
              .composite_gradient(l2_normalization_composite_gradient)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output"}, .names_single_input = true})
              .total_outputs(2)
              .refine(refine_like_first));
  ops.add(OpBuilder<L2NormalizationParams>("_l2_normalization_backward")
              .internal()
              .doc("Gradient of L2Normalization.")
              .inputs({"output_grad", "data"})
              .infer(same_as_input<1, L2NormalizationParams>)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
