// Element-wise operators of one input: a table row has name, meaning and derivative.
#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Grads = std::vector<ValueRef>;

ValueRef dy(GradBuilder& g) { return g.output_grad(0); }
ValueRef x(GradBuilder& g) { return g.input(0); }
ValueRef y(GradBuilder& g) { return g.output(0); }
ValueRef square(GradBuilder& g, ValueRef v) { return g.emit("square", {v}); }
// 1 + sign * v^2
ValueRef one_and_square(GradBuilder& g, ValueRef v, double sign) {
  return g.add_scalar(g.mul_scalar(square(g, v), sign), 1.0);
}

#define MX_GRAD(expression) [](GradBuilder& g) -> Grads { return {expression}; }

struct UnaryRow {
  const char* name;
  const char* doc;
  GradFn gradient;  // null for a zero gradient
  AmpClass amp = AmpClass::kNeutral;
  std::vector<std::string> aliases = {};
  bool keeps_zeros = false;
  bool identity = false;
  bool loss = false;
  bool keeps_integers = false;  // in numpy mode, where functions of numbers give floats
};

// Marks that f(0) = 0. Use it only if the result for a sparse array is sparse in 1.x, too.
UnaryRow keeps_zeros(UnaryRow row) {
  row.keeps_zeros = true;
  return row;
}
UnaryRow identity(UnaryRow row) {
  row.identity = true;
  return row;
}
UnaryRow keeps_integers(UnaryRow row) {
  row.keeps_integers = true;
  return row;
}
UnaryRow loss(UnaryRow row) {
  row.loss = true;
  return row;
}

// Functions that return booleans for booleans.
const UnaryRow kRows[] = {
    identity(keeps_zeros(
        {"_copy", "Returns a copy of data.", MX_GRAD(dy(g)), AmpClass::kNeutral, {"identity"}})),
    identity({"_copyto", "Copies data to out.", MX_GRAD(dy(g))}),
    identity(keeps_zeros({"BlockGrad",
                          "Returns data; its gradient is 0.",
                          nullptr,
                          AmpClass::kNeutral,
                          {"stop_gradient"}})),
    loss(identity(keeps_zeros(
        {"make_loss",
         "Returns data as a loss: its gradient is 1 and does not depend on the output's gradient.",
         MX_GRAD(g.emit("ones_like", {x(g)}))}))),
    keeps_zeros({"abs", "Absolute value.", MX_GRAD(g.mul(dy(g), g.emit("sign", {x(g)})))}),
    keeps_zeros({"sign", "-1, 0 or 1 by the sign of data; NaN stays NaN.", nullptr}),
    keeps_zeros({"square", "data * data.", MX_GRAD(g.mul(dy(g), g.mul_scalar(x(g), 2.0))),
                 AmpClass::kFloat32}),
    keeps_zeros({"relu", "max(data, 0).", MX_GRAD(g.emit("_relu_backward", {dy(g), y(g)}))}),
    {"logical_not", "1 where data is 0, else 0, in data's dtype.", nullptr},
    keeps_zeros(
        {"round", "Rounds to the nearest integer; halves are rounded away from 0.", nullptr}),
    keeps_zeros({"rint", "Rounds to the nearest integer; halves are rounded down.", nullptr}),
    keeps_zeros({"ceil", "Smallest integer not below data.", nullptr}),
    keeps_zeros({"floor", "Largest integer not above data.", nullptr}),
    keeps_zeros({"trunc", "Rounds toward 0 to an integer.", nullptr}),
    keeps_zeros({"fix", "Rounds toward 0 to an integer.", nullptr}),
    {"_contrib_isnan", "1 where data is NaN, else 0, in data's dtype.", nullptr},
    {"_contrib_isinf", "1 where data is infinite, else 0, in data's dtype.", nullptr},
    {"_contrib_isfinite", "1 where data is neither NaN nor infinite, else 0.", nullptr},
};

// Functions of numbers, which reject booleans, because a bool array could not hold the results.
const UnaryRow kNumberRows[] = {
    keeps_integers(keeps_zeros({"negative", "-data.", MX_GRAD(g.neg(dy(g)))})),
    keeps_zeros({"sqrt", "Square root.", MX_GRAD(g.mul_scalar(g.div(dy(g), y(g)), 0.5))}),
    {"rsqrt", "1 / sqrt(data).",
     MX_GRAD(g.mul_scalar(g.mul(dy(g), g.mul(y(g), square(g, y(g)))), -0.5)), AmpClass::kFloat32},
    keeps_zeros(
        {"cbrt", "Cube root.", MX_GRAD(g.mul_scalar(g.div(dy(g), square(g, y(g))), 1.0 / 3))}),
    {"rcbrt", "1 / cbrt(data).",
     MX_GRAD(g.mul_scalar(g.mul(dy(g), square(g, square(g, y(g)))), -1.0 / 3)), AmpClass::kFloat32},
    {"exp", "e to the power data.", MX_GRAD(g.mul(dy(g), y(g))), AmpClass::kFloat32},
    keeps_zeros({"expm1", "exp(data) - 1, accurate near 0.",
                 MX_GRAD(g.mul(dy(g), g.emit("exp", {x(g)}))), AmpClass::kFloat32}),
    {"log", "Natural logarithm.", MX_GRAD(g.div(dy(g), x(g))), AmpClass::kFloat32},
    {"log10", "Logarithm to base 10.",
     MX_GRAD(g.mul_scalar(g.div(dy(g), x(g)), 0.4342944819032518)), AmpClass::kFloat32},
    {"log2", "Logarithm to base 2.", MX_GRAD(g.mul_scalar(g.div(dy(g), x(g)), 1.4426950408889634)),
     AmpClass::kFloat32},
    keeps_zeros({"log1p", "log(1 + data), accurate near 0.",
                 MX_GRAD(g.div(dy(g), g.add_scalar(x(g), 1.0))), AmpClass::kFloat32}),
    keeps_zeros({"sin", "Sine of data in radians.", MX_GRAD(g.mul(dy(g), g.emit("cos", {x(g)})))}),
    {"cos", "Cosine of data in radians.", MX_GRAD(g.neg(g.mul(dy(g), g.emit("sin", {x(g)}))))},
    keeps_zeros({"tan", "Tangent of data in radians.",
                 MX_GRAD(g.mul(dy(g), one_and_square(g, y(g), 1.0))), AmpClass::kFloat32}),
    keeps_zeros({"arcsin", "Inverse sine, in radians.",
                 MX_GRAD(g.mul(dy(g), g.emit("rsqrt", {one_and_square(g, x(g), -1.0)}))),
                 AmpClass::kFloat32}),
    {"arccos", "Inverse cosine, in radians.",
     MX_GRAD(g.neg(g.mul(dy(g), g.emit("rsqrt", {one_and_square(g, x(g), -1.0)})))),
     AmpClass::kFloat32},
    keeps_zeros({"arctan", "Inverse tangent, in radians.",
                 MX_GRAD(g.div(dy(g), one_and_square(g, x(g), 1.0)))}),
    keeps_zeros({"sinh", "Hyperbolic sine.", MX_GRAD(g.mul(dy(g), g.emit("cosh", {x(g)}))),
                 AmpClass::kFloat32}),
    {"cosh", "Hyperbolic cosine.", MX_GRAD(g.mul(dy(g), g.emit("sinh", {x(g)}))),
     AmpClass::kFloat32},
    keeps_zeros({"tanh", "Hyperbolic tangent.", MX_GRAD(g.emit("_tanh_backward", {dy(g), y(g)}))}),
    keeps_zeros({"arcsinh", "Inverse hyperbolic sine.",
                 MX_GRAD(g.mul(dy(g), g.emit("rsqrt", {one_and_square(g, x(g), 1.0)})))}),
    {"arccosh", "Inverse hyperbolic cosine.",
     MX_GRAD(g.mul(dy(g), g.emit("rsqrt", {g.add_scalar(square(g, x(g)), -1.0)}))),
     AmpClass::kFloat32},
    keeps_zeros({"arctanh", "Inverse hyperbolic tangent.",
                 MX_GRAD(g.div(dy(g), one_and_square(g, x(g), -1.0))), AmpClass::kFloat32}),
    keeps_zeros({"degrees", "Converts radians to degrees.",
                 MX_GRAD(g.mul_scalar(dy(g), 57.29577951308232))}),
    keeps_zeros({"radians", "Converts degrees to radians.",
                 MX_GRAD(g.mul_scalar(dy(g), 0.017453292519943295))}),
    {"reciprocal", "1 / data.", MX_GRAD(g.neg(g.mul(dy(g), square(g, y(g))))), AmpClass::kFloat32},
    {"sigmoid", "1 / (1 + exp(-data)).", MX_GRAD(g.emit("_sigmoid_backward", {dy(g), y(g)}))},
    {"softsign", "data / (1 + abs(data)).",
     MX_GRAD(g.div(dy(g), square(g, g.add_scalar(g.emit("abs", {x(g)}), 1.0))))},
    {"erf", "Gauss error function.",
     MX_GRAD(
         g.mul(dy(g), g.mul_scalar(g.emit("exp", {g.neg(square(g, x(g)))}), 1.1283791670955126)))},
    {"erfinv", "Inverse of erf.",
     MX_GRAD(g.mul(dy(g), g.mul_scalar(g.emit("exp", {square(g, y(g))}), 0.886226925452758))),
     AmpClass::kFloat32},
    {"gamma", "Gamma function.", MX_GRAD(g.mul(dy(g), g.mul(y(g), g.emit("_digamma", {x(g)})))),
     AmpClass::kFloat32},
    {"gammaln", "Logarithm of the absolute value of the gamma function.",
     MX_GRAD(g.mul(dy(g), g.emit("_digamma", {x(g)}))), AmpClass::kFloat32},
    {"_digamma", "Derivative of gammaln.", MX_GRAD(g.mul(dy(g), g.emit("_trigamma", {x(g)}))),
     AmpClass::kFloat32},
};

// Returns the output's gradient where mask is 1, and 0 elsewhere, even if the gradient is NaN
// there.
ValueRef where_one(GradBuilder& g, ValueRef mask, ValueRef grad) {
  return g.emit("_relu_backward", {grad, mask});
}

// As in 1.x, the gradient passes where data is NaN.
Grads clip_gradient(GradBuilder& g) {
  const auto& p = g.params<ClipParams>();
  const ValueRef below =
      g.emit("_lesser_scalar", {x(g)}, {{"scalar", AttrTraits<Number>::to(p.a_min)}});
  const ValueRef above =
      g.emit("_greater_scalar", {x(g)}, {{"scalar", AttrTraits<Number>::to(p.a_max)}});
  return {where_one(g, g.emit("logical_not", {g.add(below, above)}), dy(g))};
}

Grads smooth_l1_gradient(GradBuilder& g) {
  const double sigma = g.params<SmoothL1Params>().scalar;
  const ValueRef scaled = g.mul_scalar(x(g), sigma * sigma);
  return {g.mul(dy(g), g.emit("clip", {scaled}, {{"a_min", -1.0}, {"a_max", 1.0}}))};
}

Grads hard_sigmoid_gradient(GradBuilder& g) {
  const ValueRef above = g.emit("_greater_scalar", {y(g)}, {{"scalar", 0.0}});
  const ValueRef below = g.emit("_lesser_scalar", {y(g)}, {{"scalar", 1.0}});
  const double alpha = g.params<HardSigmoidParams>().alpha;
  return {where_one(g, g.mul(above, below), g.mul_scalar(dy(g), alpha))};
}

// Inputs: gradient of relu's output, relu's output.
Grads relu_backward_gradient(GradBuilder& g) {
  return {g.emit("_relu_backward", {dy(g), g.input(1)}), {}};
}
Grads sigmoid_backward_gradient(GradBuilder& g) {
  const ValueRef slope = g.add_scalar(g.mul_scalar(g.input(1), -2.0), 1.0);
  return {g.emit("_sigmoid_backward", {dy(g), g.input(1)}), g.mul(dy(g), g.mul(g.input(0), slope))};
}
Grads tanh_backward_gradient(GradBuilder& g) {
  return {g.emit("_tanh_backward", {dy(g), g.input(1)}),
          g.mul(dy(g), g.mul(g.input(0), g.mul_scalar(g.input(1), -2.0)))};
}

void add_backward(OpRegistry& ops, const char* name, GradFn gradient) {
  ops.add(
      OpBuilder<NoParams>(name)
          .inputs({"output_grad", "output"})
          .doc("Computes the gradient of the input from the gradient and the value of the output.")
          .infer(same_shapes(name))
          .gradient(gradient)
          .inplace(0, 0)
          .inplace(1, 0)
          .pointwise());
}

template <class P>
OpBuilder<P> one_input(const char* name, const char* doc) {
  OpBuilder<P> op(name);
  op.doc(doc).infer(like_input()).inplace(0, 0).pointwise();
  return op;
}

template <class P>
OpBuilder<P> one_number(const char* name, const char* doc) {
  OpBuilder<P> op = one_input<P>(name, doc);
  op.infer(like_number(name)).numpy(NumpyTraits{Promotion::kFloat});
  return op;
}

OpSchema finish(const UnaryRow& row, OpBuilder<NoParams> op) {
  op.amp(row.amp).alias(row.aliases);
  if (row.keeps_integers) op.numpy(NumpyTraits{Promotion::kNumber});
  if (row.loss) op.starts_gradient().symbol({.output_names = {"loss"}});
  if (row.keeps_zeros) op.keeps_zeros();
  if (row.identity) op.identity();
  if (row.gradient)
    op.gradient(row.gradient);
  else
    op.zero_gradient();
  return op;
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  for (const UnaryRow& row : kRows) ops.add(finish(row, one_input<NoParams>(row.name, row.doc)));
  for (const UnaryRow& row : kNumberRows)
    ops.add(finish(row, one_number<NoParams>(row.name, row.doc)));
  ops.add(one_number<NoParams>("_trigamma", "Second derivative of gammaln."));
  ops.add(
      one_input<ClipParams>("clip", "Clips data to [a_min, a_max]; NaN stays NaN.")
          .shapes("any shape -> the same shape")
          .infer([](const ClipParams& p, std::span<const TensorSpec> in) -> Specs {
            const bool nan = std::isnan(p.a_min) || std::isnan(p.a_max);
            MX_CHECK(!nan || is_floating(in[0].dtype),
                     "clip: a_min and a_max must be numbers with data of dtype ", in[0].dtype,
                     ", got ", static_cast<double>(p.a_min), " and ", static_cast<double>(p.a_max),
                     "; convert data with astype('float32')");
            return {in[0]};
          })
          .gradient(clip_gradient)
          .keeps_zeros([](const ClipParams& p, DType) { return p.a_min <= 0 && p.a_max >= 0; }));
  ops.add(one_number<SmoothL1Params>("smooth_l1",
                                     "Smooth L1 loss: 0.5 * (scalar * x)^2 if abs(x) < 1 / "
                                     "scalar^2, else abs(x) - 0.5 / scalar^2.")
              .gradient(smooth_l1_gradient)
              .amp(AmpClass::kFloat32));
  ops.add(one_number<HardSigmoidParams>("hard_sigmoid", "Clips alpha * data + beta to [0, 1].")
              .gradient(hard_sigmoid_gradient));
  add_backward(ops, "_relu_backward", relu_backward_gradient);
  add_backward(ops, "_sigmoid_backward", sigmoid_backward_gradient);
  add_backward(ops, "_tanh_backward", tanh_backward_gradient);
});

}  // namespace mxlite
