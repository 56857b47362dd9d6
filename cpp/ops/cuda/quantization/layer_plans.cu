// Planned kernels of quantized layers: convolutions and the layers between them keep channels-last
// memory, and constant weights are packed once. Convolutions that cuDNN does not support, or whose
// filters would have to be padded, use the operator's plain kernel.
#include "cpp/ops/cuda/channels_last_plan.h"
#include "cpp/ops/cuda/quantization/convolution_loops.h"
#include "cpp/ops/cuda/quantization/tensor_cores.cuh"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace quantization;  // NOLINT: this file uses its plans of products

std::optional<Plan> plan_convolution(const PlanRequest& r) {
  const auto& p = params_of<ConvolutionParams>(r);
  if (p.num_filter % Int8Convolution::kFilters != 0) return std::nullopt;
  const Int8Convolution c =
      plan_int8_convolution(p, r.inputs[0].shape, r.outputs[0].shape, r.inputs[0].dtype);
  if (c.why_loops) return std::nullopt;
  Plan plan;
  for (size_t i = 0; i < r.inputs.size(); ++i)
    plan.inputs.push_back(i < 2 ? channels_last(r.inputs[i], Int8Convolution::kChannels)
                                : Layout{nullptr, r.inputs[i].bytes()});
  plan.outputs.push_back(channels_last(r.outputs[0]));
  for (size_t i = 1; i < r.outputs.size(); ++i)
    plan.outputs.push_back({nullptr, r.outputs[i].bytes()});
  const size_t ends = p.no_bias ? 2 : 3;  // number of inputs before the ends of the ranges
  std::vector<TensorSpec> in_specs(r.inputs.begin(), r.inputs.end());
  std::vector<TensorSpec> out_specs(r.outputs.begin(), r.outputs.end());
  plan.run = [p, c, ends, in_specs, out_specs](KernelContext& ctx, std::span<void* const> in,
                                               std::span<void* const> out, void*) {
    const auto refs = [](const std::vector<TensorSpec>& specs, std::span<void* const> data) {
      std::vector<TensorRef> list;
      for (size_t i = 0; i < specs.size(); ++i)
        list.push_back(
            {data[i], specs[i].shape, contiguous_strides(specs[i].shape), specs[i].dtype, true});
      return list;
    };
    BiasUnits bias;
    if (!p.no_bias) bias.bias = static_cast<const int8_t*>(in[2]);
    const auto* const weight = static_cast<const int8_t*>(in[1]);
    auto* const sums = static_cast<int32_t*>(out[0]);
    if (!convolve_last_on_tensor_cores(ctx, c, bias, in[0], weight, sums))
      convolve_in_loops(ctx, p, in_specs[0], out_specs[0].shape, c.problem.data[1], in[0], weight,
                        bias.bias, sums);
    give_product_range(ctx, largest(DType::kInt8), refs(in_specs, in), ends, refs(out_specs, out));
  };
  return plan;
}

// Element-wise operators: arrays of the output's shape have one memory order; the other inputs are
// ends of ranges.
std::optional<Plan> plan_elementwise(const PlanRequest& r) {
  if (!any_last(r) || !has_elements(r)) return std::nullopt;
  const Shape& shape = r.outputs[0].shape;
  const Shape flat{shape.size()};
  Plan plan;
  std::vector<TensorSpec> in_specs, out_specs;
  std::vector<TensorRef> in, out;
  const auto see = [&](std::span<const TensorSpec> specs, std::vector<Layout>& layouts,
                       std::vector<TensorSpec>& seen, std::vector<TensorRef>& refs) {
    for (const TensorSpec& s : specs) {
      const bool image = s.shape == shape;
      if (!image && s.shape.size() != 1) return false;
      layouts.push_back(image ? channels_last(s) : Layout{nullptr, s.bytes()});
      seen.push_back({image ? flat : s.shape, s.dtype});
      refs.push_back(
          {nullptr, seen.back().shape, contiguous_strides(seen.back().shape), s.dtype, true});
    }
    return true;
  };
  if (!see(r.inputs, plan.inputs, in_specs, in) || !see(r.outputs, plan.outputs, out_specs, out))
    return std::nullopt;
  const Kernel& kernel = r.op.select_kernel(DeviceType::kCUDA, r.params, in_specs, out_specs);
  plan.run = run_kernel(kernel.run, r.params, std::move(in), std::move(out));
  return plan;
}

std::optional<Plan> plan_pooling(const PlanRequest& r) {
  auto p = params_of<PoolingParams>(r);
  if (!any_last(r) || !has_elements(r) || p.channels_last()) return std::nullopt;
  p.layout = last_layout(r.inputs[0].shape.ndim());
  return plan_seen_last(r, std::move(p), 1, 1);
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  add_planned_kernel(ops, "_contrib_quantized_conv", kCUDA, {plan_convolution});
  add_planned_kernel(ops, "_contrib_quantized_pooling", kCUDA, {plan_pooling});
  for (const char* op : {"_contrib_quantize_v2", "_contrib_requantize", "_contrib_dequantize",
                         "_contrib_quantized_act", "_contrib_quantized_elemwise_add",
                         "_contrib_quantized_elemwise_mul"})
    add_planned_kernel(ops, op, kCUDA, {plan_elementwise});
});

}  // namespace mxlite::cuda
