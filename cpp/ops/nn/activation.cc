#include "cpp/ops/nn/activation.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Type = ActivationType;

Specs infer_activation(const ActivationParams& p, std::span<const TensorSpec> in) {
  if (p.act_type != Type::kRelu) check_floating("Activation", "data", in[0]);
  return Specs{in[0]};
}

std::vector<ValueRef> activation_op_gradient(GradBuilder& g) {
  const Type type = g.params<ActivationParams>().act_type;
  const ValueRef value = type == Type::kSoftsign ? g.input(0) : g.output(0);
  return {g.emit("_activation_backward", {g.output_grad(0), value}, g.params_ref())};
}

// Derivative d/dv of the slope f'(x), which is written as a function of v, the output (data for
// softsign): sigmoid v (1 - v), tanh 1 - v^2, softrelu 1 - exp(-v), softsign 1 / (1 + |v|)^2.
ValueRef slope_derivative(GradBuilder& g, Type type, ValueRef v) {
  switch (type) {
    case Type::kSigmoid:
      return g.add_scalar(g.mul_scalar(v, -2.0), 1.0);
    case Type::kTanh:
      return g.mul_scalar(v, -2.0);
    case Type::kSoftrelu:
      return g.emit("exp", {g.neg(v)});
    case Type::kSoftsign: {
      const ValueRef base = g.add_scalar(g.emit("abs", {v}), 1.0);
      const ValueRef cube = g.mul(g.mul(base, base), base);
      return g.div(g.mul_scalar(g.emit("sign", {v}), -2.0), cube);
    }
    case Type::kRelu:
      break;
  }
  return {};
}

std::vector<ValueRef> second_order(GradBuilder& g) {
  const Type type = g.params<ActivationParams>().act_type;
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0))
    grads[0] = g.emit("_activation_backward", {g.output_grad(0), g.input(1)}, g.params_ref());
  if (g.needs_grad(1) && type != Type::kRelu)
    grads[1] = g.mul(g.mul(g.output_grad(0), g.input(0)), slope_derivative(g, type, g.input(1)));
  return grads;
}

}  // namespace

static const Registration activation_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<ActivationParams>("Activation")
              .doc("Applies the activation function act_type to every element.")
              .shapes("any shape -> the same shape")
              .infer(infer_activation)
              .gradient(activation_op_gradient)
              .inplace(0, 0)
              .pointwise()
              .amp({.float32_if = {"act_type", {"softrelu"}}})
              .drawn("activation", "{act_type}")
              .refine(refine_all_alike));
  ops.add(OpBuilder<ActivationParams>("_activation_backward")
              .internal()
              .doc("Gradient of Activation from its output (softsign: its data).")
              .inputs({"output_grad", "value"})
              .infer(same_as_input<1, ActivationParams>)
              .gradient(second_order)
              .inplace(0, 0)
              .pointwise());
});

}  // namespace mxlite
