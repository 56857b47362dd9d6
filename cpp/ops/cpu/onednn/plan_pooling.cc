// Pooling and LRN in the layout of their producer.
#include <algorithm>
#include <string_view>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/pooling.h"
#include "cpp/ops/nn/lrn.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

Desc first_samples(const Desc& d, int64_t count) {
  Dims dims = d.get_dims();
  dims[0] = count;
  return d.submemory_desc(dims, Dims(dims.size(), 0));
}

// Pools a few samples at a time and then checks them for NaN.
void keep_nans_in(Plan& plan, const PlanRequest& r, PoolDescs d,
                  const dnnl::pooling_forward::primitive_desc& whole) {
  const auto& p = *static_cast<const PoolingParams*>(r.params);
  int64_t count = samples_at_once(p, r.inputs[0]);
  const int64_t batch = r.inputs[0].shape[0];
  const Desc src = whole.src_desc(), dst = whole.dst_desc();
  dnnl::pooling_forward::primitive_desc pd = whole;
  if (count < batch) {
    d.data = first_samples(d.data, count);
    d.output = first_samples(d.output, count);
    pd = forward_desc(d, first_samples(src, count), first_samples(dst, count), user_scratchpad());
    if (!pd.get(true)) {
      pd = whole;
      count = batch;
    }
  }
  bind_run(plan, pd, {{DNNL_ARG_SRC}, {DNNL_ARG_DST}});
  const auto parts = static_cast<size_t>(batch / count);
  plan.run = [pool = std::move(plan.run), d, parts, from = pd.src_desc(), to = pd.dst_desc(),
              in_step = src.get_size() / parts,
              out_step = dst.get_size() / parts](KernelContext& ctx, std::span<void* const> in,
                                                 std::span<void* const> out, void* scratch) {
    for (size_t i = 0; i < parts; ++i) {
      void* const data = static_cast<std::byte*>(in[0]) + i * in_step;
      void* const result = static_cast<std::byte*>(out[0]) + i * out_step;
      pool(ctx, {&data, 1}, {&result, 1}, scratch);
      keep_nans(d, from, to, data, result);
    }
  };
}

std::optional<Plan> plan_pooling_forward(const PlanRequest& r) {
  return guarded("Pooling", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const PoolingParams*>(r.params);
    if (!is_plannable(r)) return std::nullopt;
    const auto d = describe(p, r.inputs[0].shape, r.outputs[0].shape, r.inputs[0].dtype);
    if (!d) return std::nullopt;
    const bool last = p.channels_last();
    const Desc user = desc_of(r.layouts[0], r.inputs[0]);
    const auto pd = forward_desc(*d, last ? channels_to_second(user) : user, any_desc(d->output),
                                 user_scratchpad());
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    plan.inputs = {r.layouts[0]};
    plan.outputs = {make_layout(last ? channels_to_last(pd.dst_desc()) : pd.dst_desc())};
    bind_run(plan, pd, {{DNNL_ARG_SRC}, {DNNL_ARG_DST}});
    if (p.pool_type == PoolType::kMax) keep_nans_in(plan, r, *d, pd);
    return plan;
  });
}

// The input data is not an operand. Its layout is derived from the gradient, which has another
// shape.
Desc data_like_grad(const PlanRequest& r, const Desc& grad) {
  const TensorSpec& spec = r.inputs[0];
  const Shape& data = static_cast<const PoolingGradParams*>(r.params)->data_shape;
  if (is_channels_last(grad)) return channels_last_of(data, spec.dtype);
  if (fills_blocks(data) && same_memory(grad, blocked_of(spec.shape, spec.dtype)))
    return blocked_of(data, spec.dtype);
  return plain_desc(data, spec.dtype);
}

// The gradient of max pooling runs forward again to get oneDNN's workspace (the positions of the
// maxima), which is not saved.
std::optional<Plan> plan_pooling_backward(const PlanRequest& r) {
  return guarded("_pooling_backward", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const PoolingGradParams*>(r.params);
    if (!is_plannable(r)) return std::nullopt;
    const auto d = describe(p, p.data_shape, r.inputs[0].shape, r.inputs[0].dtype);
    if (!d) return std::nullopt;
    const bool last = p.channels_last(), max = r.inputs.size() > 1;
    Desc data = max ? desc_of(r.layouts[1], r.inputs[1]) : desc_of(r.layouts[0], r.inputs[0]);
    if (last) data = channels_to_second(data);
    if (!max) data = last ? d->data : data_like_grad(r, data);
    apply_thread_count(memory_work(data));
    const dnnl::pooling_forward::primitive_desc forward(
        engine(), dnnl::prop_kind::forward_training, d->algorithm, data, any_desc(d->output),
        d->stride, d->kernel, d->dilate, d->pad, d->pad_end, user_scratchpad(),
        /*allow_empty=*/true);
    if (!forward.get(true)) return std::nullopt;
    const dnnl::pooling_backward::primitive_desc pd(
        engine(), d->algorithm, data, forward.dst_desc(), d->stride, d->kernel, d->dilate, d->pad,
        d->pad_end, forward, user_scratchpad(), /*allow_empty=*/true);
    if (!pd.get(true) || std::string_view(pd.impl_info_str()).starts_with("ref"))
      return std::nullopt;
    const auto layout = [&](const Desc& own) {
      return make_layout(last ? channels_to_last(own) : own);
    };
    Plan plan;
    plan.inputs = {layout(pd.diff_dst_desc())};
    if (max) plan.inputs.push_back(layout(data));
    plan.outputs = {layout(pd.diff_src_desc())};
    if (!max) {
      bind_run(plan, pd, {{DNNL_ARG_DIFF_DST}, {DNNL_ARG_DIFF_SRC}});
      return plan;
    }
    const auto first = std::make_shared<const Primitive>(forward);
    const auto second = std::make_shared<const Primitive>(pd);
    const auto aligned = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    const size_t workspace_at = aligned(forward.dst_desc().get_size());
    const size_t rest_at = workspace_at + aligned(forward.workspace_desc().get_size());
    plan.scratch_bytes = rest_at + std::max(first->scratch_bytes(), second->scratch_bytes());
    plan.run = [=](KernelContext&, std::span<void* const> in, std::span<void* const> out,
                   void* scratch) {
      auto* const base = static_cast<std::byte*>(scratch);
      first->run(
          {{DNNL_ARG_SRC, in[1]}, {DNNL_ARG_DST, base}, {DNNL_ARG_WORKSPACE, base + workspace_at}},
          base + rest_at);
      second->run({{DNNL_ARG_DIFF_DST, in[0]},
                   {DNNL_ARG_WORKSPACE, base + workspace_at},
                   {DNNL_ARG_DIFF_SRC, out[0]}},
                  base + rest_at);
    };
    return plan;
  });
}

std::optional<Plan> plan_lrn_forward(const PlanRequest& r) {
  return guarded("LRN", [&]() -> std::optional<Plan> {
    if (!is_plannable(r)) return std::nullopt;
    const auto& p = *static_cast<const LRNParams*>(r.params);
    const Desc data = desc_of(r.layouts[0], r.inputs[0]);
    apply_thread_count(memory_work(data, 4));
    const dnnl::lrn_forward::primitive_desc pd(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, data,
        data, p.nsize, p.alpha, p.beta, p.knorm, user_scratchpad(), /*allow_empty=*/true);
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    plan.inputs = {r.layouts[0]};
    plan.outputs = {make_layout(pd.dst_desc())};
    bind_run(plan, pd, {{DNNL_ARG_SRC}, {DNNL_ARG_DST}});
    return plan;
  });
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "Pooling", DeviceType::kCPU, {plan_pooling_forward});
  add_planned_kernel(ops, "_pooling_backward", DeviceType::kCPU, {plan_pooling_backward});
  add_planned_kernel(ops, "LRN", DeviceType::kCPU, {plan_lrn_forward});
});

}  // namespace mxlite::onednn
