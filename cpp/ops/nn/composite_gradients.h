// Parts of composite gradients (op_schema.h) of layers: ordinary operators, so that gradients of
// gradients exist. `dy` is the output's gradient.
#pragma once
#include <vector>

#include "cpp/ops/grad_builder.h"

namespace mxlite::composite {

// Sum or mean over axes that stay with length 1.
ValueRef sum_kept(GradBuilder& g, ValueRef v, const Shape& axes);
ValueRef mean_kept(GradBuilder& g, ValueRef v, const Shape& axes);
// 1 where v > 0, else 0.
ValueRef is_positive(GradBuilder& g, ValueRef v);

// y = softmax(scale * x) along an axis; log_softmax: y is the logarithm of that.
ValueRef softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale);
ValueRef log_softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale);

// Gradients of data, gamma and beta, where input 0 is seen as `view`, normalized over `axes`, and
// gamma (input 1) as `gamma_view`.
struct Normalization {
  Shape view, gamma_view, axes;
  double eps = 0;
  bool fix_gamma = false;  // 1 in place of gamma
};
std::vector<ValueRef> normalize(GradBuilder& g, ValueRef dy, const Normalization& n);
// The same with given statistics of the shape of gamma.
std::vector<ValueRef> normalize_with(GradBuilder& g, ValueRef dy, const Normalization& n,
                                     ValueRef mean, ValueRef inv_std);

}  // namespace mxlite::composite
