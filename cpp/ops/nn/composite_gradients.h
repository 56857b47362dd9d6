// Shared parts of the layers' composite gradients (op_schema.h), which emit ordinary operators, so
// that second-order gradients exist. `dy` is the output's gradient.
#pragma once
#include <vector>

#include "cpp/ops/grad_builder.h"

namespace mxlite::composite {

// Return the sum or mean over axes with keepdims.
ValueRef sum_kept(GradBuilder& g, ValueRef v, const Shape& axes);
ValueRef mean_kept(GradBuilder& g, ValueRef v, const Shape& axes);
// Returns 1 where v > 0, else 0.
ValueRef is_positive(GradBuilder& g, ValueRef v);

// Return the gradient of x for y = softmax(scale * x) or y = log_softmax(scale * x) along an axis.
ValueRef softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale);
ValueRef log_softmax(GradBuilder& g, ValueRef dy, ValueRef y, int axis, double scale);

// A normalization of input 0, reshaped to `view`, over `axes`; gamma (input 1) is reshaped to
// `gamma_view`. The functions below return the gradients of data, gamma and beta.
struct Normalization {
  Shape view, gamma_view, axes;
  double eps = 0;
  bool fix_gamma = false;  // use 1 instead of gamma
};
std::vector<ValueRef> normalize(GradBuilder& g, ValueRef dy, const Normalization& n);
// Like the function above, for fixed statistics (of gamma's shape) that do not depend on the data.
std::vector<ValueRef> normalize_with(GradBuilder& g, ValueRef dy, const Normalization& n,
                                     ValueRef mean, ValueRef inv_std);

}  // namespace mxlite::composite
