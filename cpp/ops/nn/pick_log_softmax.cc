// log_softmax and pick without the array between them: the cross entropy of class numbers.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/take.h"

namespace mxlite {
namespace {

constexpr const char* kPickLogSoftmaxOp = "_contrib_pick_log_softmax";
constexpr const char* kPickLogSoftmaxBackward = "_pick_log_softmax_backward";

Specs infer_pick_log_softmax(const NoParams&, std::span<const TensorSpec> in) {
  const Shape &data = in[0].shape, &index = in[1].shape;
  check_floating(kPickLogSoftmaxOp, "data", in[0]);
  check_index_dtype(kPickLogSoftmaxOp, in[1]);
  check_min_ndim(kPickLogSoftmaxOp, data, 1);
  Shape kept = data, rows = data;
  kept[data.ndim() - 1] = 1;
  rows.erase(data.ndim() - 1);
  MX_CHECK_SHAPE(may_equal(index, rows) || may_equal(index, kept), kPickLogSoftmaxOp,
                 ": index must have shape ", rows, " for data of shape ", data, ", got ", index);
  MX_CHECK_SHAPE(data[data.ndim() - 1] != 0 || count_elements(index) <= 0, kPickLogSoftmaxOp,
                 ": data must have at least 1 class, got shape ", data);
  Shape statistics = kept;
  statistics[data.ndim() - 1] = 2;
  const bool wide = in[0].dtype == DType::kFloat64;
  return {{kept, in[0].dtype}, {statistics, wide ? DType::kFloat64 : DType::kFloat32}};
}

std::vector<ValueRef> pick_log_softmax_gradient(GradBuilder& g) {
  return {g.emit_all(kPickLogSoftmaxBackward,
                     {{g.output_grad(0), g.input(0), g.input(1), g.output(1)}}, g.params_ref())[0],
          {}};
}

// onehot(index) * grad - softmax(data) * grad.
std::vector<ValueRef> pick_log_softmax_composite_gradient(GradBuilder& g) {
  auto params = std::make_shared<PickBackwardParams>();
  params->shape = g.input_spec(0).shape;
  const ValueRef picked = g.emit("_pick_backward", {g.output_grad(0), g.input(1)}, params);
  const ValueRef shares = g.emit("softmax", {g.input(0)}, {{"axis", -1}});
  return {g.sub(picked, g.mul(shares, g.output_grad(0))), {}};
}

}  // namespace

static const Registration pick_log_softmax_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>(kPickLogSoftmaxOp)
              .doc("Picks one class of each row from log_softmax along the last axis; class "
                   "numbers outside of the axis are clipped to its ends.")
              .shapes("data (..., classes), index (...) or (..., 1) -> (..., 1)")
              .inputs({"data", "index"})
              .outputs(2)  // second output: the largest logit, and log(sum(exp(data - largest)))
              .visible_outputs(1)
              .infer(infer_pick_log_softmax)
              .gradient(pick_log_softmax_gradient)
              .composite_gradient(pick_log_softmax_composite_gradient)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output"}, .untied_inputs = {1}}));
  ops.add(OpBuilder<NoParams>(kPickLogSoftmaxBackward)
              .internal()
              .doc("Gradient of _contrib_pick_log_softmax.")
              .inputs({"output_grad", "data", "index", "statistics"})
              .infer([](const NoParams&, std::span<const TensorSpec> in) { return Specs{in[1]}; })
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
