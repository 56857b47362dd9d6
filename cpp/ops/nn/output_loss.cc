#include "cpp/ops/nn/output_loss.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void complete_regression(const RegressionOutputParams&, std::span<TensorSpec> in) {
  const Shape& data = in[0].shape;
  if (data.ndim() < 0) return;
  if (data.ndim() == 2 && may_equal(data[1], 1)) {
    if (is_known(data[1])) complete_shape(in[1], Shape{data[0]});
    return;  // the label may have one or two dimensions
  }
  complete_shape(in[1], data);
}

Specs infer_regression(const char* op, std::span<const TensorSpec> in) {
  const Shape &data = in[0].shape, &label = in[1].shape;
  check_floating(op, "data", in[0]);
  check_min_ndim(op, data, 1);
  check_same_dtype(op, "label", in[1], in[0].dtype);
  const bool fits = may_equal(count_elements(label), count_elements(data)) && label.ndim() > 0 &&
                    may_equal(label[0], data[0]);
  MX_CHECK_SHAPE(fits, op, ": label must have as many rows and elements as data of shape ", data,
                 ", got shape ", label);
  Shape out = data;
  out[0] = merged(data[0], label[0]);
  return Specs{TensorSpec{out, in[0].dtype}};
}

// Returns (output - label) or its sign, times grad_scale / (outputs per sample).
template <bool kSign>
std::vector<ValueRef> regression_gradient(GradBuilder& g) {
  const Shape& data = g.input_spec(0).shape;
  const double scale = g.params<RegressionOutputParams>().grad_scale;
  ValueRef difference = g.sub(g.output(0), g.reshape(g.input(1), data));
  if (kSign) difference = g.emit("sign", {difference});
  const int64_t outputs = data.product(1, data.ndim());
  return {g.mul_scalar(difference, scale / static_cast<double>(std::max<int64_t>(outputs, 1))), {}};
}

void add_regression(OpRegistry& ops, const char* name, const char* doc, GradFn gradient) {
  ops.add(OpBuilder<RegressionOutputParams>(name)
              .doc(doc)
              .inputs({"data", "label"})
              .infer([name](const RegressionOutputParams&, std::span<const TensorSpec> in) {
                return infer_regression(name, in);
              })
              .complete(complete_regression)
              .gradient(gradient)
              .loss_output()
              .storage({.dense_result = true})
              .inplace(0, 0)
              .refine(refine_like_first));
}

Specs infer_svm(const SVMOutputParams&, std::span<const TensorSpec> in) {
  check_floating("SVMOutput", "data", in[0]);
  check_min_ndim("SVMOutput", in[0].shape, 2);
  check_same_dtype("SVMOutput", "label", in[1], in[0].dtype);
  check_param_shape("SVMOutput", "label", in[1], Shape{in[0].shape[0]}, in[0].shape);
  return Specs{in[0]};
}

std::vector<ValueRef> cross_entropy_gradient(GradBuilder& g) {
  const TensorSpec& data = g.input_spec(0);
  const ValueRef right =
      g.emit("one_hot", {g.input(1)}, {{"depth", data.shape[1]}, {"dtype", data.dtype}});
  return {g.mul(g.output_grad(0), g.sub(g.emit("softmax", {g.input(0)}), right)), {}};
}

}  // namespace

static const Registration output_loss_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add_regression(ops, "LinearRegressionOutput",
                 "Returns data; backward computes the gradient of half the squared difference from "
                 "label, with or without output gradient.",
                 regression_gradient<false>);
  add_regression(ops, "LogisticRegressionOutput",
                 "Returns sigmoid(data); backward computes the gradient of the binary cross "
                 "entropy with label.",
                 regression_gradient<false>);
  add_regression(
      ops, "MAERegressionOutput",
      "Returns data; backward computes the gradient of the absolute difference from label.",
      regression_gradient<true>);
  ops.add(
      OpBuilder<SVMOutputParams>("SVMOutput")
          .doc("Returns data, the scores of classes; backward computes the gradient of a hinge "
               "loss for the classes in label.")
          .shapes("data: (N, classes), label: (N,) -> shape of data")
          .inputs({"data", "label"})
          .infer(infer_svm)
          .complete([](const SVMOutputParams&, std::span<TensorSpec> in) {
            if (in[0].shape.ndim() > 0) complete_shape(in[1], Shape{in[0].shape[0]});
          })
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit("_svm_output_backward", {g.input(0), g.input(1)}, g.params_ref()), {}};
          })
          .starts_gradient()
          .inplace(0, 0)
          .refine(refine_like_first));
  ops.add(OpBuilder<SVMOutputParams>("_svm_output_backward")
              .internal()
              .doc("Gradient of SVMOutput.")
              .inputs({"data", "label"})
              .infer(same_as_input<0, SVMOutputParams>));
  ops.add(OpBuilder<MakeLossParams>("MakeLoss")
              .doc("Returns data as a loss: its gradient is grad_scale and does not depend on the "
                   "output's gradient.")
              .infer([](const MakeLossParams&, std::span<const TensorSpec> in) {
                check_floating("MakeLoss", "data", in[0]);
                return Specs{in[0]};
              })
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit("_make_loss_backward", {g.input(0)}, g.params_ref())};
              })
              .starts_gradient()
              .inplace(0, 0)
              .refine(refine_all_alike));
  ops.add(OpBuilder<MakeLossParams>("_make_loss_backward")
              .internal()
              .doc("Gradient of MakeLoss.")
              .infer(same_as_input<0, MakeLossParams>));
  ops.add(
      OpBuilder<NoParams>("softmax_cross_entropy")
          .doc("Sum over the batch of the cross entropy of softmax(data) and the classes in label.")
          .shapes("data: (N, classes), label: (N,) -> (1,)")
          .inputs({"data", "label"})
          .infer([](const NoParams&, std::span<const TensorSpec> in) {
            const Shape& data = in[0].shape;
            check_floating("softmax_cross_entropy", "data", in[0]);
            MX_CHECK_SHAPE(
                data.ndim() == 2,
                "softmax_cross_entropy: data must have 2 dimensions (batch, classes), got shape ",
                data);
            MX_CHECK_SHAPE(data[1] != 0,
                           "softmax_cross_entropy: data must have at least 1 class, got shape ",
                           data);
            check_param_shape("softmax_cross_entropy", "label", in[1], Shape{data[0]}, data);
            return Specs{TensorSpec{Shape{1}, in[0].dtype}};
          })
          .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
            return {g.emit("_softmax_cross_entropy_backward",
                           {g.output_grad(0), g.input(0), g.input(1)}),
                    {}};
          })
          .composite_gradient(cross_entropy_gradient)
          .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<NoParams>("_softmax_cross_entropy_backward")
              .internal()
              .doc("Gradient of softmax_cross_entropy.")
              .inputs({"output_grad", "data", "label"})
              .infer(same_as_input<1, NoParams>)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
