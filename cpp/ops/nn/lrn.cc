#include "cpp/ops/nn/lrn.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_lrn(const LRNParams& p, std::span<const TensorSpec> in) {
  check_floating("LRN", "data", in[0]);
  MX_CHECK_SHAPE(in[0].shape.ndim() == 4,
                 "LRN: data must have 4 dimensions (batch, channels, height, width), got shape ",
                 in[0].shape);
  MX_CHECK(p.nsize % 2 == 1, "LRN: nsize must be an odd number, got ", p.nsize);
  return Specs{in[0]};
}

// Returns the sum over nsize neighbouring channels.
ValueRef window_sum(GradBuilder& g, ValueRef v) {
  const int64_t size = g.params<LRNParams>().nsize;
  const Shape shape = g.spec(v).shape;
  const ValueRef plane = g.reshape(v, Shape{shape[0], 1, shape[1], shape[2] * shape[3]});
  const ValueRef sums = g.emit(
      "Pooling", {plane},
      {{"kernel", Shape{size, 1}}, {"pad", Shape{size / 2, 0}}, {"pool_type", std::string("sum")}});
  return g.reshape(sums, shape);
}

// With base = knorm + alpha / nsize * sum of squares:
// dx = dy * base^-beta - 2 alpha beta / nsize * x * sum(dy * x * base^(-beta - 1)).
std::vector<ValueRef> lrn_composite_gradient(GradBuilder& g) {
  if (g.input_spec(0).shape.size() == 0) return {};
  const auto& p = g.params<LRNParams>();
  const ValueRef x = g.input(0), dy = g.output_grad(0);
  const double share = static_cast<double>(p.alpha) / static_cast<double>(p.nsize);
  const ValueRef squares = window_sum(g, g.emit("square", {x}));
  const ValueRef base = g.add_scalar(g.mul_scalar(squares, share), p.knorm);
  const ValueRef scale = g.emit("_power_scalar", {base}, {{"scalar", -double{p.beta}}});
  const ValueRef others = window_sum(g, g.mul(g.mul(dy, x), g.div(scale, base)));
  return {g.sub(g.mul(dy, scale), g.mul_scalar(g.mul(x, others), 2 * share * p.beta))};
}

std::vector<ValueRef> lrn_gradient(GradBuilder& g) {
  return {g.emit("_lrn_backward", {g.output_grad(0), g.input(0)}, g.params_ref())};
}

}  // namespace

static const Registration lrn_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<LRNParams>("LRN")
              .doc("Local response normalization: data / (knorm + alpha / nsize * sum of squares) "
                   "** beta, where the sum covers nsize adjacent channels.")
              .shapes("(N, C, H, W) -> the same shape")
              .infer(infer_lrn)
              .gradient(lrn_gradient)
              .composite_gradient(lrn_composite_gradient)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output"}, .names_single_input = true})
              .total_outputs(2)
              .refine(refine_like_first));
  ops.add(OpBuilder<LRNParams>("_lrn_backward")
              .internal()
              .doc("Gradient of LRN.")
              .inputs({"output_grad", "data"})
              .infer(same_as_input<1, LRNParams>)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
