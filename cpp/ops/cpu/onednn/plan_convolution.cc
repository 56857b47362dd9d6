// Convolutions and their gradients inside executables. Every tensor has the layout that oneDNN
// prefers, weights are packed once, and residual additions and activations are applied before
// results are stored.
#include "cpp/ops/cpu/onednn/convolution.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/post_ops.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

// Makes a Layout from oneDNN's descriptor of data (N, C, spatial), with dimensions in the user's
// order: (N, spatial, C) if channels_last.
Layout data_layout(const Desc& own, bool channels_last) {
  return make_layout(channels_last ? channels_to_last(own) : own);
}

// Returns the layout of a packed weight; dimensions after the groups are in the user's order.
Layout weight_layout(const Desc& own, bool channels_last, bool grouped, bool transposed) {
  const int ndim = own.get_ndims(), first = grouped ? 1 : 0;
  std::vector<int> to(static_cast<size_t>(ndim));  // dimension i becomes dimension to[i]
  for (int i = 0; i < ndim; ++i) to[i] = i;
  int out = first, in = first + 1;
  if (transposed) std::swap(out, in);  // the operator's first dimension is oneDNN's input channel
  if (channels_last) {
    // The operator's weight is (a, spatial, b); b moves from the second to the last dimension.
    for (int i = first + 2; i < ndim; ++i) to[i] = i - 1;
    to[first] = out == first ? first : ndim - 1;
    to[first + 1] = out == first ? ndim - 1 : first;
  } else {
    to[first] = out;
    to[first + 1] = in;
  }
  return make_layout(own.permute_axes(to));
}

template <class P>
size_t own_inputs(const PlanRequest& r) {
  return static_cast<const P*>(r.params)->no_bias ? 2 : 3;
}

template <class P, class MakeDesc>
std::optional<Plan> plan_forward(const PlanRequest& r, bool transposed, MakeDesc make) {
  if (!is_plannable(r)) return std::nullopt;
  const auto& p = *static_cast<const P*>(r.params);
  const size_t own = own_inputs<P>(r);
  const ConvDescs d = describe(p, r.inputs[0].shape, r.outputs[0].shape, r.inputs[0].dtype,
                               /*bias=*/own > 2);
  const auto pd = make(d, fused_attr(r.post_ops));
  if (!pd.get(true)) return std::nullopt;
  Plan plan;
  const bool last = p.channels_last();
  plan.inputs = {data_layout(pd.src_desc(), last),
                 weight_layout(pd.weights_desc(), last, p.num_group > 1, transposed)};
  Binding binding{{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS}, {DNNL_ARG_DST}};
  if (own > 2) {
    plan.inputs.push_back(make_layout(pd.bias_desc()));
    binding.inputs.push_back(DNNL_ARG_BIAS);
  }
  plan.outputs = {data_layout(pd.dst_desc(), last)};
  if (count_additions(r.post_ops)) {  // the sum reads the output's memory
    plan.inputs.push_back(plan.outputs[0]);
    plan.required_inplace.push_back({static_cast<int>(own), 0});
  }
  bind_run(plan, pd, std::move(binding));
  return plan;
}

// Returns whether to pack a weight in every call instead of keeping a packed copy. With a large
// batch, memory is scarce, and packing (twice with a folded BatchNorm) takes 1 to 3 % of the work
// on 4,096 pixels.
bool is_cheap_to_pack(const PlanRequest& r) {
  constexpr int64_t kLeastBatch = 8, kLeastPixels = 4096;
  constexpr int64_t kVeryLargeBatch = 32, kLeastPixelsOfIt = 1536;  // packing then takes up
                                                                    // to 6 %
  constexpr size_t kLeastBytes = 256 << 10;
  const Shape &output = r.outputs[0].shape, &weight = r.inputs[1].shape;
  const int64_t batch = output[0], filters = weight[0], pixels = output.size() / filters;
  return r.constant[1] && !r.training && r.inputs[0].dtype == DType::kFloat32 &&
         r.inputs[1].bytes() >= kLeastBytes &&
         ((batch >= kLeastBatch && pixels >= kLeastPixels) ||
          (batch >= kVeryLargeBatch && pixels >= kLeastPixelsOfIt));
}

std::optional<Plan> plan_convolution_forward(const PlanRequest& r) {
  return guarded("Convolution", [&]() -> std::optional<Plan> {
    std::optional<Plan> plan = plan_own_convolution(r);
    if (!plan)
      plan = plan_forward<ConvolutionParams>(
          r, /*transposed=*/false, [&](const ConvDescs& d, const dnnl::primitive_attr& attr) {
            return forward_desc(d, d.any_data(), d.any_weight(), d.any_output(), r.training, attr);
          });
    if (plan && is_cheap_to_pack(r)) plan->reorder_each_run = {0, 1};
    return plan;
  });
}

std::optional<Plan> plan_deconvolution(const PlanRequest& r) {
  return guarded("Deconvolution", [&] {
    return plan_forward<DeconvolutionParams>(
        r, /*transposed=*/true, [&](const ConvDescs& d, const dnnl::primitive_attr& attr) {
          return deconvolution_desc(d, d.any_data(), d.any_weight(), d.any_output(), attr);
        });
  });
}

std::optional<Plan> plan_backward_data(const PlanRequest& r) {
  return guarded("_convolution_backward_data", [&]() -> std::optional<Plan> {
    if (!is_plannable(r)) return std::nullopt;
    if (auto plan = plan_own_backward_data(r)) return plan;
    const auto& p = *static_cast<const ConvolutionDataGradParams*>(r.params);
    const ConvDescs d = describe(p, r.outputs[0].shape, r.inputs[0].shape, r.inputs[0].dtype,
                                 /*bias=*/false);
    const auto pd = backward_data_desc(d, d.any_data(), d.any_weight(), d.any_output());
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    const bool last = p.channels_last();
    plan.inputs = {data_layout(pd.diff_dst_desc(), last),
                   weight_layout(pd.weights_desc(), last, p.num_group > 1, false)};
    plan.outputs = {data_layout(pd.diff_src_desc(), last)};
    bind_run(plan, pd, {{DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS}, {DNNL_ARG_DIFF_SRC}});
    return plan;
  });
}

std::optional<Plan> plan_backward_weight(const PlanRequest& r) {
  return guarded("_convolution_backward_weight", [&]() -> std::optional<Plan> {
    if (!is_plannable(r)) return std::nullopt;
    if (auto plan = plan_own_backward_weight(r)) return plan;
    const auto& p = *static_cast<const ConvolutionParams*>(r.params);
    const ConvDescs d =
        describe(p, r.inputs[1].shape, r.inputs[0].shape, r.inputs[0].dtype, r.outputs.size() > 1);
    const auto pd = backward_weight_desc(d, d.any_data(), d.any_weight(), d.any_output());
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    const bool last = p.channels_last();
    plan.inputs = {data_layout(pd.diff_dst_desc(), last), data_layout(pd.src_desc(), last)};
    plan.outputs = {weight_layout(pd.diff_weights_desc(), last, p.num_group > 1, false)};
    Binding binding{{DNNL_ARG_DIFF_DST, DNNL_ARG_SRC}, {DNNL_ARG_DIFF_WEIGHTS}};
    if (r.outputs.size() > 1) {
      plan.outputs.push_back(make_layout(pd.diff_bias_desc()));
      binding.outputs.push_back(DNNL_ARG_DIFF_BIAS);
    }
    bind_run(plan, pd, std::move(binding));
    return plan;
  });
}

}  // namespace

bool is_empty(const PlanRequest& r) {
  for (const auto specs : {r.inputs, r.outputs})
    for (const TensorSpec& s : specs)
      if (s.shape.size() == 0) return true;
  return false;
}

bool is_plannable(const PlanRequest& r) { return computes_in(r.inputs[0].dtype) && !is_empty(r); }

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "Convolution", DeviceType::kCPU,
                     {plan_convolution_forward, can_fuse_add_and_activation});
  add_planned_kernel(ops, "Deconvolution", DeviceType::kCPU,
                     {plan_deconvolution, can_fuse_activation});
  add_planned_kernel(ops, "_convolution_backward_data", DeviceType::kCPU, {plan_backward_data});
  add_planned_kernel(ops, "_convolution_backward_weight", DeviceType::kCPU, {plan_backward_weight});
});

}  // namespace mxlite::onednn
