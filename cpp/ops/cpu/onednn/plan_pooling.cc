// Pooling and LRN in the layout of their producer.
#include <string_view>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/pooling.h"
#include "cpp/ops/nn/lrn.h"

namespace mxlite::onednn {
namespace {

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
    return plan;
  });
}

std::optional<Plan> plan_lrn_forward(const PlanRequest& r) {
  return guarded("LRN", [&]() -> std::optional<Plan> {
    if (!is_plannable(r)) return std::nullopt;
    const auto& p = *static_cast<const LRNParams*>(r.params);
    apply_thread_count();
    const Desc data = desc_of(r.layouts[0], r.inputs[0]);
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

void plan_pooling() {
  add_planned_kernel("Pooling", DeviceType::kCPU, {plan_pooling_forward});
  add_planned_kernel("LRN", DeviceType::kCPU, {plan_lrn_forward});
}

}  // namespace mxlite::onednn
