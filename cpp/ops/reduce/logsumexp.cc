// log(sum(exp(data))) over axes, without overflow.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kOp = "logsumexp";

Specs infer(const ReduceParams& p, std::span<const TensorSpec> in) {
  check_floating(kOp, "data", in[0]);
  const Shape& shape = in[0].shape;
  const AxisMask reduced = reduced_axes(kOp, p.axis, p.exclude, shape.ndim());
  const Shape out = result_shape(shape, reduced, p.keepdims);
  MX_CHECK_SHAPE(reduced_size(shape, reduced) != 0 || count_elements(out) <= 0, kOp,
                 ": data must have at least 1 element along the reduced axes, got shape ", shape);
  return {{out, in[0].dtype}};
}

// Returns the share of each element in the sum. The shares are recomputed from data, because an
// output of 16-bit floats has too few digits.
std::vector<ValueRef> gradient(GradBuilder& g) {
  const auto& p = g.params<ReduceParams>();
  const TensorSpec& data = g.input_spec(0);
  const Shape kept =
      kept_shape(data.shape, reduced_axes(kOp, p.axis, p.exclude, data.shape.ndim()));
  const bool half = is_half(data.dtype);
  const ValueRef x = half ? g.cast(g.input(0), DType::kFloat32) : g.input(0);
  const ValueRef y = half ? g.emit(kOp, {x}, g.params_ref()) : g.output(0);
  const ValueRef share = g.emit("exp", {g.sub(x, g.reshape(y, kept))});
  return {g.mul(g.cast(share, data.dtype), g.reshape(g.output_grad(0), kept))};
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<ReduceParams>(kOp)
              .doc("Logarithm of the sum of exp(data) along axes, computed without overflow.")
              .shapes("any shape -> data without the axes `axis`, or with size 1 there "
                      "(`keepdims=True`)")
              .infer(infer)
              .gradient(gradient)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
