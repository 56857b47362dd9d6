#include "cpp/ops/random/pdf.h"

#include <array>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace random {
namespace {

using Grads = std::vector<ValueRef>;

// Returns derivatives of the log density with respect to sample and parameters; an undefined value
// is a zero derivative.
using LogDerivatives = Grads (*)(GradBuilder& g, ValueRef x, const Grads& p);

ValueRef one(GradBuilder& g, const char* op, ValueRef x) { return g.emit(op, {x}); }
ValueRef inverse(GradBuilder& g, ValueRef x) { return one(g, "reciprocal", x); }

Grads uniform(GradBuilder& g, ValueRef, const Grads& p) {
  const ValueRef density = inverse(g, g.sub(p[1], p[0]));
  return {{}, density, g.neg(density)};
}

Grads normal(GradBuilder& g, ValueRef x, const Grads& p) {
  const ValueRef z = g.div(g.sub(x, p[0]), p[1]);
  const ValueRef by_mu = g.div(z, p[1]);
  return {g.neg(by_mu), by_mu, g.div(g.add_scalar(one(g, "square", z), -1.0), p[1])};
}

Grads gamma(GradBuilder& g, ValueRef x, const Grads& p) {
  const ValueRef by_alpha =
      g.sub(g.add(one(g, "log", p[1]), one(g, "log", x)), one(g, "_digamma", p[0]));
  return {g.sub(g.div(g.add_scalar(p[0], -1.0), x), p[1]), by_alpha, g.sub(g.div(p[0], p[1]), x)};
}

Grads exponential(GradBuilder& g, ValueRef x, const Grads& p) {
  return {g.neg(p[0]), g.sub(inverse(g, p[0]), x)};
}

Grads poisson(GradBuilder& g, ValueRef x, const Grads& p) {
  return {{}, g.add_scalar(g.div(x, p[0]), -1.0)};
}

// Returns the derivative of lgamma(x + k) - lgamma(k) with respect to k.
ValueRef rising(GradBuilder& g, ValueRef x, ValueRef k) {
  return g.sub(one(g, "_digamma", g.add(x, k)), one(g, "_digamma", k));
}

Grads negative_binomial(GradBuilder& g, ValueRef x, const Grads& p) {
  const ValueRef fail = g.add_scalar(g.neg(p[1]), 1.0);
  return {
      {}, g.add(rising(g, x, p[0]), one(g, "log", p[1])), g.sub(g.div(p[0], p[1]), g.div(x, fail))};
}

// Uses the negative binomial distribution with k = 1 / alpha and p = 1 / (mu * alpha + 1).
Grads generalized_negative_binomial(GradBuilder& g, ValueRef x, const Grads& p) {
  const ValueRef mu = p[0], alpha = p[1];
  const ValueRef k = inverse(g, alpha);
  const ValueRef scale = g.add_scalar(g.mul(mu, alpha), 1.0);  // 1 / p
  const ValueRef by_k = g.sub(rising(g, x, k), one(g, "log", scale));
  const ValueRef excess = g.div(g.sub(x, mu), scale);
  return {{}, g.div(excess, mu), g.sub(g.div(excess, alpha), g.mul(one(g, "square", k), by_k))};
}

struct PdfRow {
  const char* name;
  const char* doc;
  std::vector<std::string> params;
  LogDerivatives derivatives;
};

// Returns the head gradient for the log density, using d density = density * d log density.
ValueRef head(GradBuilder& g) {
  if (g.params<PdfParams>().is_log) return g.output_grad(0);
  return g.mul(g.output_grad(0), g.output(0));
}

template <LogDerivatives derivatives>
Grads gradient(GradBuilder& g) {
  const DType dtype = g.input_spec(0).dtype;
  // Computes 16-bit floats in float32, because differences of nearly equal terms lose digits.
  const auto widen = [&](ValueRef v) { return is_half(dtype) ? g.cast(v, DType::kFloat32) : v; };
  const ValueRef x = widen(g.input(0)), h = widen(head(g));
  Grads params;
  for (int i = 1; i < g.num_inputs(); ++i) {
    Shape shape = g.input_spec(i).shape;  // append axes of size 1, to broadcast over samples
    while (shape.ndim() < g.input_spec(0).shape.ndim()) shape.push_back(1);
    params.push_back(widen(g.reshape(g.input(i), shape)));
  }
  Grads grads = derivatives(g, x, params);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i]) {
      grads[i] = g.zeros(g.input_spec(static_cast<int>(i)));
      continue;
    }
    const Shape& like = i == 0 ? g.input_spec(0).shape : g.spec(params[i - 1]).shape;
    const Shape& shape = g.input_spec(static_cast<int>(i)).shape;
    grads[i] = g.cast(g.reshape(g.sum_to(g.mul(h, grads[i]), like), shape), dtype);
  }
  return grads;
}

// The result has the sample's shape, which begins with the dimensions of the parameters.
void refine(const void* params, PartialShapes& shapes) {
  refine_like_first(params, shapes);
  for (int i = 1; i < shapes.num_inputs(); ++i) {
    const Shape &sample = shapes.input(0), &own = shapes.input(i);
    if (own.ndim() < 0 || own.ndim() > sample.ndim()) continue;
    const Shape first(sample.span().first(static_cast<size_t>(own.ndim())));
    for (int k = 1; k < shapes.num_inputs(); ++k) {
      shapes.refine_input(k, first);
      shapes.refine_input(k, own);
    }
  }
}

Specs infer(const std::string& op, std::span<const TensorSpec> in) {
  const Shape& sample = in[0].shape;
  for (const TensorSpec& s : in)
    MX_CHECK_DTYPE(is_floating(s.dtype) && s.dtype == in[0].dtype, op,
                   ": sample and parameters must be of one floating dtype, got ", in[0].dtype,
                   " and ", s.dtype);
  for (const TensorSpec& s : in.subspan(1)) {
    bool fits = s.shape.ndim() <= sample.ndim() && may_equal(s.shape, in[1].shape);
    for (int i = 0; fits && i < s.shape.ndim(); ++i) fits = may_equal(s.shape[i], sample[i]);
    MX_CHECK_SHAPE(
        fits, op,
        ": all parameters must have one shape, the first dimensions of the sample's shape ", sample,
        ", got ", s.shape);
  }
  return {in[0]};
}

const std::array<std::pair<PdfRow, GradFn>, 7> kRows = {{
#define MX_PDF(fn, doc, ...) \
  { {#fn, doc, {__VA_ARGS__}, fn}, &gradient<&fn> }
    MX_PDF(uniform, "Density of the uniform distribution on [low, high].", "low", "high"),
    MX_PDF(normal, "Density of the normal distribution with mean mu and standard deviation sigma.",
           "mu", "sigma"),
    MX_PDF(gamma, "Density of the gamma distribution with shape alpha and rate beta.", "alpha",
           "beta"),
    MX_PDF(exponential, "Density of the exponential distribution with rate lam.", "lam"),
    MX_PDF(poisson, "Probability of sample under the Poisson distribution with rate lam.", "lam"),
    MX_PDF(negative_binomial,
           "Probability of sample failures before the k-th success, where p is the probability of "
           "a success.",
           "k", "p"),
    MX_PDF(generalized_negative_binomial,
           "Probability of sample under the negative binomial distribution with mean mu and "
           "dispersion alpha.",
           "mu", "alpha"),
#undef MX_PDF
}};

Specs infer_dirichlet(const PdfParams&, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_random_pdf_dirichlet";
  const Shape &sample = in[0].shape, &alpha = in[1].shape;
  MX_CHECK_DTYPE(is_floating(in[0].dtype) && in[0].dtype == in[1].dtype, kOp,
                 ": sample and alpha must be of one floating dtype, got ", in[0].dtype, " and ",
                 in[1].dtype);
  bool fits =
      alpha.ndim() > 0 && alpha.ndim() <= sample.ndim() && may_equal(alpha.back(), sample.back());
  for (int i = 0; fits && i + 1 < alpha.ndim(); ++i) fits = may_equal(alpha[i], sample[i]);
  MX_CHECK_SHAPE(fits, kOp,
                 ": alpha must have leading dimensions of sample and the last dimension of sample, "
                 "got sample of shape ",
                 sample, " and alpha of shape ", alpha);
  Shape out = sample;
  out.erase(out.ndim() - 1);
  if (out.ndim() == 0) out.push_back(1);  // as in 1.x
  return {{out, in[0].dtype}};
}

void refine_dirichlet(const void*, PartialShapes& shapes) {
  const Shape &sample = shapes.input(0), &alpha = shapes.input(1);
  if (alpha.ndim() < 1 || alpha.ndim() > sample.ndim()) return;
  Shape expected(sample.span().first(static_cast<size_t>(alpha.ndim())));
  expected[expected.ndim() - 1] = sample.back();
  shapes.refine_input(1, expected);
}

Grads dirichlet_gradient(GradBuilder& g) {
  const Shape& sample = g.input_spec(0).shape;
  Shape wide = g.input_spec(1).shape, kept = sample;
  const int64_t classes = wide.back();
  wide.erase(wide.ndim() - 1);
  while (wide.ndim() + 1 < sample.ndim()) wide.push_back(1);
  wide.push_back(classes);
  kept[kept.ndim() - 1] = 1;
  const ValueRef x = g.input(0), alpha = g.reshape(g.input(1), wide);
  const ValueRef h = g.reshape(head(g), kept);
  const ValueRef total = g.emit("sum", {alpha}, {{"axis", Shape{-1}}, {"keepdims", true}});
  const ValueRef by_alpha =
      g.add(g.sub(one(g, "_digamma", total), one(g, "_digamma", alpha)), one(g, "log", x));
  return {g.mul(h, g.div(g.add_scalar(alpha, -1.0), x)),
          g.reshape(g.sum_to(g.mul(h, by_alpha), wide), g.input_spec(1).shape)};
}

}  // namespace
}  // namespace random

static const Registration pdf_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace random;  // NOLINT: this folder's own names
  for (const auto& [row, gradient] : kRows) {
    const std::string name = str("_random_pdf_", row.name);
    std::vector<std::string> inputs = {"sample"};
    inputs.insert(inputs.end(), row.params.begin(), row.params.end());
    ops.add(OpBuilder<PdfParams>(name)
                .alias({name.substr(1)})
                .inputs(inputs)
                .doc(str(row.doc,
                         " The density is 0 outside of the distribution's support. Each element of "
                         "a parameter array applies to one row of sample."))
                .infer([name](const PdfParams&, std::span<const TensorSpec> in) {
                  return infer(name, in);
                })
                .refine(refine)
                .gradient(gradient));
  }
  ops.add(OpBuilder<PdfParams>("_random_pdf_dirichlet")
              .alias({"random_pdf_dirichlet"})
              .inputs({"sample", "alpha"})
              .doc("Density of the Dirichlet distribution; the probabilities of a sample, and "
                   "their parameters alpha, are along the last axis.")
              .infer(infer_dirichlet)
              .refine(refine_dirichlet)
              .gradient(dirichlet_gradient));
});

}  // namespace mxlite
