#include "cpp/ops/contrib/estimators.h"

#include <cmath>

#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/pointwise/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

std::vector<ValueRef> straight_through(GradBuilder& g) { return {g.output_grad(0)}; }

std::vector<ValueRef> scaled_gradient(GradBuilder& g) {
  return {g.mul_scalar(g.output_grad(0), g.params<ScalarParams>().scalar)};
}

std::vector<ValueRef> quadratic_gradient(GradBuilder& g) {
  const auto& p = g.params<QuadraticParams>();
  return {g.mul(g.output_grad(0), g.add_scalar(g.mul_scalar(g.input(0), 2 * p.a), p.b))};
}

template <class P>
OpBuilder<P> one_input(const char* name, const char* doc, GradFn gradient) {
  OpBuilder<P> op(name);
  op.doc(doc).infer(like_input()).gradient(gradient).inplace(0, 0).pointwise();
  return op;
}

bool passes_through_zero(const QuadraticParams& p, DType) {
  return p.c == 0 && std::isfinite(p.a) && std::isfinite(p.b);
}

}  // namespace

static const Registration estimators_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(one_input<NoParams>("_contrib_round_ste",
                              "Returns round(data); the gradient of data is the output's gradient "
                              "(straight-through estimator).",
                              straight_through));
  ops.add(one_input<NoParams>("_contrib_sign_ste",
                              "Returns sign(data); the gradient of data is the output's gradient "
                              "(straight-through estimator).",
                              straight_through));
  ops.add(one_input<ScalarParams>("_contrib_gradientmultiplier",
                                  "Returns data; backward multiplies the gradient by scalar.",
                                  scaled_gradient));
  ops.add(one_input<QuadraticParams>("_contrib_quadratic", "a * data * data + b * data + c.",
                                     quadratic_gradient)
              .keeps_zeros(passes_through_zero));
});

}  // namespace mxlite
