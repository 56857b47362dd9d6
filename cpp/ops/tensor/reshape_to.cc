// _reshape_to, which gradients and views emit: reshape to a literal shape, without Reshape's codes.
#include "cpp/ops/tensor/reshape_to.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_reshape_to(const ReshapeToParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(may_equal(p.shape.size(), count_elements(in[0].shape)), "reshape: array of shape ",
                 in[0].shape, " has ", count_elements(in[0].shape), " elements, but shape ",
                 p.shape, " needs ", p.shape.size());
  return {{p.shape, in[0].dtype}};
}

std::vector<ValueRef> reshape_to_gradient(GradBuilder& g) {
  return {g.reshape(g.output_grad(0), g.input_spec(0).shape)};
}

}  // namespace

static const Registration reshape_to_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<ReshapeToParams>("_reshape_to")
              .doc("Returns the same elements in another shape, of which each dimension is given.")
              .infer(infer_reshape_to)
              .gradient(reshape_to_gradient)
              .inplace(0, 0)
              .aliases_input()
              .symbol({.file_name = "Reshape"}));
});

}  // namespace mxlite
