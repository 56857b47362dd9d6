#include "cpp/ops/nn/l2_normalization.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/nn/register.h"

namespace mxlite {
namespace {

Specs infer(const L2NormalizationParams& p, std::span<const TensorSpec> in) {
  check_floating("L2Normalization", "data", in[0]);
  check_min_ndim("L2Normalization", in[0].shape, p.mode == L2Mode::kInstance ? 1 : 3);
  return Specs{in[0]};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  return {g.emit("_l2_normalization_backward", {g.output_grad(0), g.input(0)}, g.params_ref())};
}

}  // namespace

void register_l2_normalization(OpRegistry& ops) {
  ops.add(OpBuilder<L2NormalizationParams>("L2Normalization")
              .doc("Divides by the L2 norm of a sample, a pixel's channels or a channel's pixels.")
              .inputs({"data"})
              .infer(infer)
              .gradient(gradient)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .build());
  ops.add(OpBuilder<L2NormalizationParams>("_l2_normalization_backward")
              .doc("Gradient of L2Normalization.")
              .inputs({"output_grad", "data"})
              .infer(same_as_input<1, L2NormalizationParams>)
              .amp(AmpClass::kFloat32)
              .build());
}

}  // namespace mxlite
