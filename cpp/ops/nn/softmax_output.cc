#include "cpp/ops/nn/softmax_output.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kSoftmaxOutputOp = "SoftmaxOutput";

Shape label_shape(const SoftmaxOutputParams& p, const Shape& data) {
  if (!p.multi_output && !p.preserve_shape) return Shape{data[0]};
  Shape label = data;
  label.erase(p.multi_output ? 1 : data.ndim() - 1);
  return label;
}

Specs infer_softmax_output(const SoftmaxOutputParams& p, std::span<const TensorSpec> in) {
  const Shape &data = in[0].shape, &label = in[1].shape;
  check_floating(kSoftmaxOutputOp, "data", in[0]);
  check_min_ndim(kSoftmaxOutputOp, data, p.preserve_shape && !p.multi_output ? 1 : 2);
  check_same_dtype(kSoftmaxOutputOp, "label", in[1], in[0].dtype);
  // Labels are class indices, whose positions may have any shape (as in 1.x), or probabilities.
  const Shape positions = label_shape(p, data);
  const bool indices =
      may_equal(count_elements(label), count_elements(positions)) && label.ndim() > 0 &&
      (may_equal(label, positions) || may_equal(label[0], data[0]) || label.ndim() == 1);
  MX_CHECK_SHAPE(indices || may_equal(label, data), kSoftmaxOutputOp, ": label must have shape ",
                 positions, " (indices) or ", data, " (probabilities), got ", label);
  return Specs{in[0]};
}

std::vector<ValueRef> softmax_output_gradient(GradBuilder& g) {
  std::vector<ValueRef> inputs = {g.output(0), g.input(1)};
  if (g.params<SoftmaxOutputParams>().out_grad) inputs.push_back(g.output_grad(0));
  return {g.emit_all("_softmax_output_backward", inputs, g.params_ref())[0], {}};
}

}  // namespace

static const Registration softmax_output_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<SoftmaxOutputParams>(kSoftmaxOutputOp)
              .doc("Returns softmax(data); backward computes the gradient of the cross entropy "
                   "with label.")
              .alias({"Softmax"})
              .inputs({"data", "label"})
              .infer(infer_softmax_output)
              .complete([](const SoftmaxOutputParams& p, std::span<TensorSpec> in) {
                if (in[0].shape.ndim() < 0) return;
                check_min_ndim(kSoftmaxOutputOp, in[0].shape, p.preserve_shape ? 1 : 2);
                complete_shape(in[1], label_shape(p, in[0].shape));
              })
              .gradient(softmax_output_gradient)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .loss_output()
              .drawn("softmax")
              .symbol({.output_names = {"output"}})
              .refine(refine_like_first));
  ops.add(OpBuilder<SoftmaxOutputParams>("_softmax_output_backward")
              .internal()
              .doc("Gradient of SoftmaxOutput.")
              .inputs({"output", "label", "output_grad"})
              .input_count([](const SoftmaxOutputParams& p) { return p.out_grad ? 3 : 2; })
              .infer(same_as_input<0, SoftmaxOutputParams>)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
