#include "cpp/ops/nn/ctc_loss.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kCtcLossOp = "CTCLoss";

Specs infer_ctc_loss(const CTCLossParams&, std::span<const TensorSpec> in) {
  const Shape &data = in[0].shape, &label = in[1].shape;
  check_floating(kCtcLossOp, "data", in[0]);
  MX_CHECK_SHAPE(data.ndim() == 3, kCtcLossOp,
                 ": data must have 3 dimensions (length, batch, classes), got shape ", data);
  MX_CHECK_SHAPE(label.ndim() == 2 && may_equal(label[0], data[1]), kCtcLossOp,
                 ": label must have shape (", data[1], ", labels) for data of shape ", data,
                 ", got ", label);
  MX_CHECK_SHAPE(may_be_at_least(data[2], 2), kCtcLossOp,
                 ": data must have at least 2 classes (one is the blank), got shape ", data);
  for (size_t i = 2; i < in.size(); ++i)
    check_param_shape(kCtcLossOp, "lengths", in[i], Shape{data[1]}, data);
  return Specs{TensorSpec{Shape{merged(data[1], label[0])}, in[0].dtype}, in[0]};
}

std::vector<ValueRef> ctc_loss_gradient(GradBuilder& g) {
  // Output 1 is the gradient of output 0. Output 1 has a gradient only if the gradient of the loss
  // is differentiated.
  MX_CHECK_KIND(!g.has_output_grad(1), ErrorKind::kNotSupported, kCtcLossOp,
                ": the gradient of its gradient is not supported");
  const Shape& data = g.input_spec(0).shape;
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = g.mul(g.reshape(g.output_grad(0), Shape{1, data[1], 1}), g.output(1));
  return grads;
}

}  // namespace

static const Registration ctc_loss_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CTCLossParams>(kCtcLossOp)
              .doc("Connectionist temporal classification loss of every sequence of a batch; data "
                   "holds scores before softmax.")
              .shapes("data: (steps, N, classes), label: (N, length), lengths: (N,) -> (N,)")
              .alias({"ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"})
              .inputs({"data", "label", "data_lengths", "label_lengths"})
              .input_count([](const CTCLossParams& p) {
                return 2 + (p.use_data_lengths ? 1 : 0) + (p.use_label_lengths ? 1 : 0);
              })
              .outputs(2)
              .visible_outputs(1)
              .infer(infer_ctc_loss)
              .gradient(ctc_loss_gradient)
              .amp(AmpClass::kFloat32)
              .total_outputs(2)
              .symbol({.untied_inputs = {1, 2, 3}}));
});

}  // namespace mxlite
