// Gradient rules of element-wise operators of two arrays that are broadcast.
#pragma once
#include <vector>

#include "cpp/ops/grad_builder.h"

namespace mxlite {

// Returns gradients for both sides, each only if requested, summed over the broadcast axes.
template <class Left, class Right>
std::vector<ValueRef> two_gradients(GradBuilder& g, Left left, Right right) {
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) grads[0] = g.sum_to(left(), g.input_spec(0).shape);
  if (g.needs_grad(1)) grads[1] = g.sum_to(right(), g.input_spec(1).shape);
  return grads;
}

// Returns the gradients of the remainder a - b * round(a / b). For integers, the gradients are
// zero, as in 1.x, because the remainder is piecewise constant.
inline std::vector<ValueRef> remainder_gradients(GradBuilder& g, const char* round) {
  if (!is_floating(g.input_spec(0).dtype)) return std::vector<ValueRef>(2);
  const ValueRef dy = g.output_grad(0);
  return two_gradients(
      g, [&] { return dy; },
      [&] { return g.neg(g.mul(dy, g.emit(round, {g.div(g.input(0), g.input(1))}))); });
}

// Makes a GradFn from an expression for each side. The expressions may use `g`.
#define MX_GRADS(left, right)                            \
  [](GradBuilder& g) -> std::vector<ValueRef> {          \
    return two_gradients(                                \
        g, [&] { return left; }, [&] { return right; }); \
  }

}  // namespace mxlite
