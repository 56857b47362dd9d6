// Planned kernels: convolutions with fused operations, and channels-last layers between
// convolutions.

#include "cpp/ops/cuda/channels_last_plan.h"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/cuda/reduce/channel_sum.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite::cuda {
namespace {

// ---- convolutions ----------------------------------------------------------------------------

bool by_cudnn(const PlanRequest& r) {
  return (r.inputs[0].dtype == DType::kFloat32 || is_half(r.inputs[0].dtype)) && has_elements(r);
}

// Supports output + addend and then relu, at most one of each, in this order.
bool can_fuse(const PlanRequest& so_far, const PostOp& candidate, const TensorSpec* extra_input) {
  if (!by_cudnn(so_far)) return false;
  if (candidate.kind == PostOp::Kind::kAdd)
    return so_far.post_ops.empty() && extra_input && *extra_input == so_far.outputs[0];
  for (const PostOp& p : so_far.post_ops)
    if (p.kind == PostOp::Kind::kActivation) return false;
  return is_relu(candidate);
}

// Uses channels-last memory for 16-bit floats; float32 keeps its layout.
bool wants_last(const PlanRequest& r, bool already_last) {
  return is_half(r.inputs[0].dtype) && !already_last;
}
Layout layout_for(const TensorSpec& spec, bool last) {
  return last ? channels_last(spec) : Layout{nullptr, spec.bytes()};
}

std::optional<Plan> plan_forward(const PlanRequest& r) {
  if (!by_cudnn(r)) return std::nullopt;
  const auto& p = params_of<ConvolutionParams>(r);
  const bool last = wants_last(r, p.channels_last());
  ConvolutionProblem problem =
      describe_convolution(ConvolutionDirection::kForward, p, r.inputs[0].shape, r.outputs[0].shape,
                           r.inputs[0].dtype, last);
  problem.bias = !p.no_bias;
  for (const PostOp& post : r.post_ops)
    (post.kind == PostOp::Kind::kAdd ? problem.addend : problem.relu) = true;
  Plan plan;
  plan.inputs = {layout_for(r.inputs[0], last), layout_for(r.inputs[1], last)};
  if (problem.bias) plan.inputs.push_back({nullptr, r.inputs[2].bytes()});
  const size_t addend = plan.inputs.size();
  plan.outputs = {layout_for(r.outputs[0], last)};
  if (problem.addend) plan.inputs.push_back(plan.outputs[0]);
  plan.run = [problem, addend](KernelContext& ctx, std::span<void* const> in,
                               std::span<void* const> out, void*) {
    run_convolution(ctx, problem,
                    {in[0], in[1], out[0], problem.bias ? in[2] : nullptr,
                     problem.addend ? in[addend] : nullptr});
  };
  return plan;
}

std::optional<Plan> plan_backward_data(const PlanRequest& r) {
  if (!by_cudnn(r)) return std::nullopt;
  const auto& p = params_of<ConvolutionDataGradParams>(r);
  const bool last = wants_last(r, p.channels_last());
  const ConvolutionProblem problem =
      describe_convolution(ConvolutionDirection::kBackwardData, p, r.outputs[0].shape,
                           r.inputs[0].shape, r.inputs[0].dtype, last);
  Plan plan;
  plan.inputs = {layout_for(r.inputs[0], last), layout_for(r.inputs[1], last)};
  plan.outputs = {layout_for(r.outputs[0], last)};
  plan.run = [problem](KernelContext& ctx, std::span<void* const> in, std::span<void* const> out,
                       void*) {
    run_convolution(ctx, problem, {out[0], in[1], in[0]});
  };
  return plan;
}

std::optional<Plan> plan_backward_weight(const PlanRequest& r) {
  if (!by_cudnn(r)) return std::nullopt;
  const auto& p = params_of<ConvolutionParams>(r);
  const bool last = wants_last(r, p.channels_last());
  const ConvolutionProblem problem =
      describe_convolution(ConvolutionDirection::kBackwardWeight, p, r.inputs[1].shape,
                           r.inputs[0].shape, r.inputs[0].dtype, last);
  Plan plan;
  plan.inputs = {layout_for(r.inputs[0], last), layout_for(r.inputs[1], last)};
  plan.outputs = {layout_for(r.outputs[0], last)};
  const bool bias = r.outputs.size() > 1;
  TensorSpec grad = r.inputs[0];
  if (last) grad.shape = last_shape(grad.shape);
  TensorSpec sums;
  if (bias) {
    sums = r.outputs[1];
    plan.outputs.push_back({nullptr, sums.bytes()});
  }
  const int axis = problem.channels_last ? grad.shape.ndim() - 1 : 1;
  plan.run = [=](KernelContext& ctx, std::span<void* const> in, std::span<void* const> out, void*) {
    run_convolution(ctx, problem, {in[1], out[0], in[0]});
    if (bias)
      channel_sum(ctx, {in[0], grad.shape, contiguous_strides(grad.shape), grad.dtype}, axis,
                  {out[1], sums.shape, contiguous_strides(sums.shape), sums.dtype});
  };
  return plan;
}

// ---- layers between convolutions -------------------------------------------------------------

constexpr int kAll = 1 << 20;

template <class P>
std::optional<Plan> plan_batch_norm(const PlanRequest& r) {
  P p = params_of<P>(r);
  const Shape& data = r.inputs[0].shape;
  if (!any_last(r) || !has_elements(r) || (p.axis != 1 && p.axis + data.ndim() != 1))
    return std::nullopt;
  p.axis = data.ndim() - 1;
  return plan_seen_last(r, std::move(p), std::is_same_v<P, BatchNormGradParams> ? 2 : 1, 1);
}

template <class P>
std::optional<Plan> plan_pooling(const PlanRequest& r) {
  P p = params_of<P>(r);
  if (!any_last(r) || !has_elements(r) || p.channels_last()) return std::nullopt;
  p.layout = last_layout(r.inputs[0].shape.ndim());
  if constexpr (requires { p.data_shape; }) p.data_shape = last_shape(p.data_shape);
  return plan_seen_last(r, std::move(p), kAll, kAll);
}

std::optional<Plan> plan_concat(const PlanRequest& r) {
  ConcatParams p = params_of<ConcatParams>(r);
  const int ndim = r.outputs[0].shape.ndim();
  if (!any_last(r) || !has_elements(r) || (p.dim != 1 && p.dim + ndim != 1)) return std::nullopt;
  p.dim = ndim - 1;
  return plan_seen_last(r, p, kAll, kAll);
}

// Element-wise operators work in any memory order that all operands share.
std::optional<Plan> plan_pointwise(const PlanRequest& r) {
  if (!any_last(r) || !has_elements(r) || r.op.random_count) return std::nullopt;
  Plan plan;
  std::vector<TensorSpec> in_specs, out_specs;
  std::vector<TensorRef> in, out;
  const Shape& shape = r.outputs[0].shape;
  const Shape flat{shape.size()};
  for (const TensorSpec& s : r.inputs) {
    if (s.shape != shape) return std::nullopt;
    plan.inputs.push_back(channels_last(s));
    in_specs.push_back({flat, s.dtype});
    in.push_back({nullptr, flat, Strides{1}, s.dtype, true});
  }
  for (const TensorSpec& s : r.outputs) {
    if (s.shape != shape) return std::nullopt;
    plan.outputs.push_back(channels_last(s));
    out_specs.push_back({flat, s.dtype});
    out.push_back({nullptr, flat, Strides{1}, s.dtype, true});
  }
  const Kernel& kernel = r.op.select_kernel(DeviceType::kCUDA, r.params, in_specs, out_specs);
  plan.run = run_kernel(kernel.run, r.params, std::move(in), std::move(out));
  return plan;
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  add_planned_kernel(ops, "Convolution", kCUDA, {plan_forward, can_fuse});
  add_planned_kernel(ops, "_convolution_backward_data", kCUDA, {plan_backward_data});
  add_planned_kernel(ops, "_convolution_backward_weight", kCUDA, {plan_backward_weight});
  add_planned_kernel(ops, "BatchNorm", kCUDA, {plan_batch_norm<BatchNormParams>});
  add_planned_kernel(ops, "_batch_norm_backward", kCUDA, {plan_batch_norm<BatchNormGradParams>});
  add_planned_kernel(ops, "Pooling", kCUDA, {plan_pooling<PoolingParams>});
  add_planned_kernel(ops, "_pooling_backward", kCUDA, {plan_pooling<PoolingGradParams>});
  add_planned_kernel(ops, "Concat", kCUDA, {plan_concat});
  for (const char* op : {"Activation", "_activation_backward", "Cast", "amp_cast"})
    add_planned_kernel(ops, op, kCUDA, {plan_pointwise});
  add_pointwise_planned_kernel(kCUDA, {plan_pointwise});
});

}  // namespace mxlite::cuda
