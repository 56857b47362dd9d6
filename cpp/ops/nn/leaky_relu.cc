#include "cpp/ops/nn/leaky_relu.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using LeakyReluType = LeakyReLUType;
constexpr const char* kLeakyReluOp = "LeakyReLU";

Shape gamma_shape(const Shape& data) { return Shape{data.ndim() > 1 ? data[1] : 1}; }

// Returns whether gamma has one slope, one per channel, or one for each entry of the first two
// axes.
bool is_gamma_of(const Shape& data, const Shape& gamma) {
  if (may_equal(gamma, Shape{1}) || may_equal(gamma, gamma_shape(data))) return true;
  if (data.ndim() < 2) return may_equal(gamma, data);
  return gamma.ndim() == 2 && may_equal(gamma[1], data[1]) &&
         (gamma[0] == 1 || may_equal(gamma[0], data[0]));
}

int input_count(const LeakyReLUParams& p) { return p.act_type == LeakyReluType::kPrelu ? 2 : 1; }

Specs infer_leaky_relu(const LeakyReLUParams& p, std::span<const TensorSpec> in) {
  check_floating(kLeakyReluOp, "data", in[0]);
  if (p.act_type == LeakyReluType::kPrelu) {
    check_same_dtype(kLeakyReluOp, "gamma", in[1], in[0].dtype);
    MX_CHECK_SHAPE(is_gamma_of(in[0].shape, in[1].shape), kLeakyReluOp, ": gamma must have shape ",
                   gamma_shape(in[0].shape),
                   ", (1,) or that of the first two axes of data of shape ", in[0].shape, ", got ",
                   in[1].shape);
  }
  if (p.act_type != LeakyReluType::kRrelu) return Specs{in[0]};
  MX_CHECK(p.lower_bound <= p.upper_bound, kLeakyReluOp,
           ": lower_bound must be at most upper_bound, ", p.upper_bound, ", got ", p.lower_bound);
  return Specs{in[0], in[0]};
}

// Returns `above` where data > 0, `below` elsewhere.
ValueRef choose(GradBuilder& g, double above, ValueRef below) {
  const ValueRef positive = composite::is_positive(g, g.input(0));
  const ValueRef rest = g.add_scalar(g.neg(positive), 1.0);
  return g.add(g.mul_scalar(positive, above), g.mul(rest, below));
}

// Returns factor * exp(min(data, 0)).
ValueRef exponential(GradBuilder& g, double factor) {
  const ValueRef below = g.emit("_minimum_scalar", {g.input(0)}, {{"scalar", 0.0}});
  return g.mul_scalar(g.emit("exp", {below}), factor);
}

// Returns the derivative of gelu: Phi(x) + x * phi(x), with the normal distribution and density.
ValueRef gelu_slope(GradBuilder& g) {
  const ValueRef x = g.input(0);
  const ValueRef tail = g.emit("erf", {g.mul_scalar(x, 0.70710678118654752)});
  const ValueRef density = g.emit("exp", {g.mul_scalar(g.emit("square", {x}), -0.5)});
  return g.add(g.add_scalar(g.mul_scalar(tail, 0.5), 0.5),
               g.mul(x, g.mul_scalar(density, 0.39894228040143268)));
}

// Returns the derivative of gelu_tanh, with t = tanh(factor * (data + cubic * data^3)).
ValueRef gelu_tanh_slope(GradBuilder& g) {
  constexpr double kFactor = 0.79788456080286536, kCubic = 0.044715;
  const ValueRef x = g.input(0), square = g.emit("square", {x});
  const ValueRef curve = g.add_scalar(g.mul_scalar(square, kFactor * kCubic), kFactor);
  const ValueRef t = g.emit("tanh", {g.mul(x, curve)});
  const ValueRef rest = g.add_scalar(g.neg(g.emit("square", {t})), 1.0);
  const ValueRef growth = g.add_scalar(g.mul_scalar(square, 3 * kFactor * kCubic), kFactor);
  return g.add(g.add_scalar(g.mul_scalar(t, 0.5), 0.5),
               g.mul_scalar(g.mul(g.mul(x, rest), growth), 0.5));
}

std::vector<ValueRef> prelu_gradients(GradBuilder& g) {
  const Shape& gamma = g.input_spec(1).shape;
  Shape view = Shape::filled(g.input_spec(0).shape.ndim(), 1);
  if (view.ndim() > 1) view[1] = gamma.back();
  if (view.ndim() == 1 || gamma.ndim() == 2) view[0] = gamma[0];
  const ValueRef dy = g.output_grad(0), x = g.input(0);
  const ValueRef below = g.emit("_minimum_scalar", {x}, {{"scalar", 0.0}});
  return {g.mul(dy, choose(g, 1.0, g.reshape(g.input(1), view))),
          g.reshape(g.sum_to(g.mul(dy, below), view), gamma)};
}

// The second output of the forward holds the drawn slopes.
std::vector<ValueRef> rrelu_gradient(GradBuilder& g) {
  return {g.mul(g.output_grad(0), g.output(1))};
}

std::vector<ValueRef> leaky_relu_composite_gradient(GradBuilder& g) {
  constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;
  const auto& p = g.params<LeakyReLUParams>();
  const ValueRef dy = g.output_grad(0);
  switch (p.act_type) {
    case LeakyReluType::kElu:
      return {g.mul(dy, choose(g, 1.0, exponential(g, p.slope)))};
    case LeakyReluType::kSelu:
      return {g.mul(dy, choose(g, kSeluScale, exponential(g, kSeluScale * kSeluAlpha)))};
    case LeakyReluType::kGelu:
      return {g.mul(dy, gelu_slope(g))};
    case LeakyReluType::kGeluTanh:
      return {g.mul(dy, gelu_tanh_slope(g))};
    case LeakyReluType::kPrelu:
      return prelu_gradients(g);
    case LeakyReluType::kRrelu:
      return rrelu_gradient(g);
    default:
      break;
  }
  const ValueRef slope = g.mul_scalar(g.emit("ones_like", {g.input(0)}), p.slope);
  return {g.mul(dy, choose(g, 1.0, slope))};
}

std::vector<ValueRef> leaky_relu_gradient(GradBuilder& g) {
  const LeakyReluType type = g.params<LeakyReLUParams>().act_type;
  if (type == LeakyReluType::kRrelu) return rrelu_gradient(g);
  std::vector<ValueRef> inputs = {g.output_grad(0), g.input(0)};
  if (type == LeakyReluType::kPrelu) inputs.push_back(g.input(1));
  return g.emit_all("_leaky_relu_backward", inputs, g.params_ref());
}

}  // namespace

static const Registration leaky_relu_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<LeakyReLUParams>(kLeakyReluOp)
              .doc("Applies a variant of relu that is not zero for all negative elements; act_type "
                   "selects it.")
              .shapes("data: (N, C, ...), gamma (prelu): (C,) or (1,) -> shape of data")
              .inputs({"data", "gamma"})
              .input_count(input_count)
              .output_count([](const LeakyReLUParams& p, int) {
                return p.act_type == LeakyReluType::kRrelu ? 2 : 1;
              })
              .visible_outputs(1)
              .infer(infer_leaky_relu)
              .complete([](const LeakyReLUParams& p, std::span<TensorSpec> in) {
                if (p.act_type == LeakyReluType::kPrelu && in[0].shape.ndim() >= 0)
                  complete_shape(in[1], gamma_shape(in[0].shape));
              })
              .gradient(leaky_relu_gradient)
              .composite_gradient(leaky_relu_composite_gradient)
              .inplace(0, 0)
              .elementwise()
              .amp({.float32_if = {"act_type", {"elu", "selu"}}})
              .drawn("activation", "{act_type}")
              .training_dependent()
              .random([](const LeakyReLUParams& p, std::span<const TensorSpec> out) -> uint64_t {
                if (p.act_type != LeakyReluType::kRrelu) return 0;
                return static_cast<uint64_t>(out[0].shape.size() + 3) / 4;
              })
              .symbol({.output_names = {"output"},
                       .names_single_input = true,
                       .input_init = {{"gamma", R"(["Constant", {"value": 0.25}])"}}})
              .total_outputs([](const LeakyReLUParams& p, int) {
                return p.act_type == LeakyReluType::kRrelu ? 2 : 1;
              })
              .refine(refine_like_first));
  ops.add(OpBuilder<LeakyReLUParams>("_leaky_relu_backward")
              .internal()
              .doc("Gradients of LeakyReLU for data and, with prelu, gamma.")
              .inputs({"output_grad", "data", "gamma"})
              .input_count([](const LeakyReLUParams& p) { return input_count(p) + 1; })
              .output_count([](const LeakyReLUParams& p, int) { return input_count(p); })
              .infer([](const LeakyReLUParams&, std::span<const TensorSpec> in) {
                Specs out{in[1]};
                if (in.size() > 2) out.push_back(in[2]);
                return out;
              }));
  ops.add(OpBuilder<LeakyReLUParams>("_gelu_and_backward")
              .internal()
              .doc("The gradient of gelu or gelu_tanh for data, and what it returns for data.")
              .inputs({"output_grad", "data"})
              .outputs(2)
              .infer([](const LeakyReLUParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[1]};
              })
              .inplace(0, 0)
              .inplace(1, 1));
});

}  // namespace mxlite
