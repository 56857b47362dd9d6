#include "cpp/ops/nn/lrn.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/nn/register.h"

namespace mxlite {
namespace {

Specs infer(const LRNParams& p, std::span<const TensorSpec> in) {
  check_floating("LRN", "data", in[0]);
  MX_CHECK_SHAPE(in[0].shape.ndim() == 4, "LRN: data of shape ", in[0].shape,
                 " given, 4 dimensions (batch, channels, height, width) expected");
  MX_CHECK(p.nsize > 0 && p.nsize % 2 == 1, "LRN: nsize ", p.nsize,
           " given, a positive odd number expected");
  return Specs{in[0]};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  return {g.emit("_lrn_backward", {g.output_grad(0), g.input(0)}, g.params_ref())};
}

}  // namespace

void register_lrn(OpRegistry& ops) {
  ops.add(OpBuilder<LRNParams>("LRN")
              .doc("Local response normalization across channels.")
              .inputs({"data"})
              .infer(infer)
              .gradient(gradient)
              .amp(AmpClass::kFloat32)
              .build());
  ops.add(OpBuilder<LRNParams>("_lrn_backward")
              .doc("Gradient of LRN.")
              .inputs({"output_grad", "data"})
              .infer(same_as_input<1, LRNParams>)
              .amp(AmpClass::kFloat32)
              .build());
}

}  // namespace mxlite
