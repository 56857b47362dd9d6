// Shared checks and gradient rules of operators on regions.
#pragma once
#include <memory>

#include "cpp/ops/op_schema.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {

// Throws unless data is a floating-point image batch with non-empty height and width, and rois is
// (regions, columns) of data's dtype, or of float32 if data is half precision.
void check_regions(const char* op, std::span<const TensorSpec> in, int64_t columns);
// Throws unless pooled_size has two positive entries.
void check_pooled_size(const char* op, const Shape& size);
// Throws unless data has output_dim * groups^2 channels.
void check_groups(const char* op, const Shape& data, int64_t output_dim, int64_t groups);

// Gradient rule of an operator op(data, rois) that is linear in data: emits the operator `backward`
// on (output_grad, rois) with the same parameters and data_shape. rois get no gradient.
template <class P>
std::vector<ValueRef> roi_gradient(GradBuilder& g, const char* backward) {
  auto params = std::make_shared<RoiGradParams<P>>();
  static_cast<P&>(*params) = g.params<P>();
  params->data_shape = g.input_spec(0).shape;
  return {g.emit(backward, {g.output_grad(0), g.input(1)}, ParamsRef(std::move(params))),
          ValueRef{}};
}

// Gradient rule of the operator `backward`: emits the forward operator.
template <class P>
std::vector<ValueRef> roi_second_gradient(GradBuilder& g, const char* forward) {
  auto params = std::make_shared<P>(g.params<RoiGradParams<P>>());
  return {g.emit(forward, {g.output_grad(0), g.input(1)}, ParamsRef(std::move(params))),
          ValueRef{}};
}

template <class P>
Specs infer_roi_backward(const RoiGradParams<P>& p, std::span<const TensorSpec> in) {
  return Specs{TensorSpec{p.data_shape, in[0].dtype}};
}

}  // namespace mxlite
