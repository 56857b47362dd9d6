// Checks and small rules that the layer operators share.
#pragma once
#include <span>

#include "cpp/ops/grad_builder.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// Sets the unknown dimensions of a parameter's shape. Known dimensions do not change (infer
// compares them).
void complete_shape(TensorSpec& spec, const Shape& expected);

void check_floating(const char* op, const char* input, const TensorSpec& spec);
void check_same_dtype(const char* op, const char* input, const TensorSpec& spec, DType expected);
// "<op>: <input> must have shape (4,) for data of shape (2, 4), got (3,)"
void check_param_shape(const char* op, const char* input, const TensorSpec& spec,
                       const Shape& expected, const Shape& data);
void check_min_ndim(const char* op, const Shape& data, int ndim);

// Infer rule of operators whose output has the shape and dtype of input I.
template <int I, class P>
Specs same_as_input(const P&, std::span<const TensorSpec> in) {
  return Specs{in[I]};
}

// Returns the sum over all axes except `axis`, e.g. a bias gradient.
ValueRef sum_except(GradBuilder& g, ValueRef value, int axis);

}  // namespace mxlite
