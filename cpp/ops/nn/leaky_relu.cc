#include "cpp/ops/nn/leaky_relu.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/nn/register.h"

namespace mxlite {
namespace {

using Type = LeakyReLUType;
constexpr const char* kOp = "LeakyReLU";

Shape gamma_shape(const Shape& data) { return Shape{data.ndim() > 1 ? data[1] : 1}; }

int input_count(const LeakyReLUParams& p) { return p.act_type == Type::kPrelu ? 2 : 1; }

Specs infer(const LeakyReLUParams& p, std::span<const TensorSpec> in) {
  check_floating(kOp, "data", in[0]);
  if (p.act_type == Type::kPrelu) {
    check_same_dtype(kOp, "gamma", in[1], in[0].dtype);
    if (in[1].shape != Shape{1})
      check_param_shape(kOp, "gamma", in[1], gamma_shape(in[0].shape), in[0].shape);
  }
  if (p.act_type != Type::kRrelu) return Specs{in[0]};
  MX_CHECK(p.lower_bound <= p.upper_bound, kOp, ": lower_bound ", p.lower_bound,
           " is above upper_bound ", p.upper_bound);
  return Specs{in[0], in[0]};
}

std::vector<ValueRef> gradient(GradBuilder& g) {
  const Type type = g.params<LeakyReLUParams>().act_type;
  if (type == Type::kRrelu) return {g.mul(g.output_grad(0), g.output(1))};
  std::vector<ValueRef> inputs = {g.output_grad(0), g.input(0)};
  if (type == Type::kPrelu) inputs.push_back(g.input(1));
  return g.emit_all("_leaky_relu_backward", inputs, g.params_ref());
}

}  // namespace

void register_leaky_relu(OpRegistry& ops) {
  ops.add(OpBuilder<LeakyReLUParams>(kOp)
              .doc("Rectifier that is not zero below zero: leaky, prelu, rrelu, elu, selu, gelu.")
              .inputs({"data", "gamma"})
              .input_count(input_count)
              .output_count(
                  [](const LeakyReLUParams& p, int) { return p.act_type == Type::kRrelu ? 2 : 1; })
              .visible_outputs(1)
              .infer(infer)
              .complete([](const LeakyReLUParams& p, std::span<TensorSpec> in) {
                if (p.act_type == Type::kPrelu && in[0].shape.is_known())
                  complete_shape(in[1], gamma_shape(in[0].shape));
              })
              .gradient(gradient)
              .inplace(0, 0)
              .training_dependent()
              .random([](const LeakyReLUParams& p, std::span<const TensorSpec> out) -> uint64_t {
                if (p.act_type != Type::kRrelu) return 0;
                return static_cast<uint64_t>(out[0].shape.size() + 3) / 4;
              })
              .build());
  ops.add(OpBuilder<LeakyReLUParams>("_leaky_relu_backward")
              .doc("Gradients of LeakyReLU for data and, with prelu, gamma.")
              .inputs({"output_grad", "data", "gamma"})
              .input_count([](const LeakyReLUParams& p) { return input_count(p) + 1; })
              .output_count([](const LeakyReLUParams& p, int) { return input_count(p); })
              .infer([](const LeakyReLUParams&, std::span<const TensorSpec> in) {
                Specs out{in[1]};
                if (in.size() > 2) out.push_back(in[2]);
                return out;
              })
              .build());
}

}  // namespace mxlite
