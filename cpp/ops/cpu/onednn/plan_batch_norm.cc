// BatchNorm in the layout of its producer: inference, training and gradients. Our operator returns
// the inverse standard deviation where oneDNN returns the variance, and updates the running
// statistics itself. Batch statistics of plain arrays use the native kernel, which sums in double
// and is not slower; oneDNN's means of a million numbers have only 3 correct digits.
#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/post_ops.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

using Flags = dnnl::normalization_flags;

bool takes(const PlanRequest& r, const BatchNormParams& p, size_t data, size_t gamma) {
  const int ndim = r.inputs[data].shape.ndim();
  return is_plannable(r) && ndim >= 2 && ndim <= 5 && (p.axis == 1 || p.axis == 1 - ndim) &&
         r.inputs[gamma].dtype == DType::kFloat32;
}

Flags flags_of(const BatchNormParams& p, bool global_stats) {
  Flags f = Flags::use_shift;
  if (!p.fix_gamma) f = f | Flags::use_scale;
  if (global_stats) f = f | Flags::use_global_stats;
  return f;
}

size_t stats_bytes(int64_t channels) {
  return (static_cast<size_t>(channels) * sizeof(float) + 63) / 64 * 64;
}

std::optional<Plan> plan_forward(const PlanRequest& r) {
  return guarded("BatchNorm", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const BatchNormParams*>(r.params);
    if (!takes(r, p, 0, 1)) return std::nullopt;
    if (auto plan = plan_own_norm(r)) return plan;
    const bool batch_stats = r.training && !p.use_global_stats;
    if (batch_stats && r.layouts[0].is_plain()) return std::nullopt;
    const Desc data = desc_of(r.layouts[0], r.inputs[0]);
    apply_thread_count(memory_work(data, 3));
    // Training is never fused, so forward_training needs no workspace.
    const dnnl::batch_normalization_forward::primitive_desc pd(
        engine(),
        batch_stats ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference, data,
        data, static_cast<float>(p.eps), flags_of(p, !batch_stats),
        fused_attr(r.post_ops, /*keep_nan=*/false),
        /*allow_empty=*/true);
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    for (size_t i = 0; i < 5; ++i) plan.inputs.push_back({nullptr, r.inputs[i].bytes()});
    plan.inputs[0] = r.layouts[0];
    plan.outputs = {make_layout(pd.dst_desc()), plan.inputs[3], plan.inputs[3]};
    const int64_t channels = r.inputs[0].shape[1];
    auto primitive = std::make_shared<const Primitive>(pd);
    const size_t variance_at = (primitive->scratch_bytes() + 63) / 64 * 64;
    plan.scratch_bytes = variance_at + stats_bytes(channels);
    plan.run = [=, eps = static_cast<float>(p.eps), momentum = p.momentum](
                   KernelContext&, std::span<void* const> in, std::span<void* const> out,
                   void* scratch) {
      auto* const mean = static_cast<float*>(out[1]);
      auto* const inv_std = static_cast<float*>(out[2]);
      auto* const moving_mean = static_cast<float*>(in[3]);
      auto* const moving_var = static_cast<float*>(in[4]);
      auto* const variance =
          batch_stats ? reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + variance_at)
                      : moving_var;
      primitive->run({{DNNL_ARG_SRC, in[0]},
                      {DNNL_ARG_SCALE, in[1]},
                      {DNNL_ARG_SHIFT, in[2]},
                      {DNNL_ARG_MEAN, batch_stats ? mean : moving_mean},
                      {DNNL_ARG_VARIANCE, variance},
                      {DNNL_ARG_DST, out[0]}},
                     scratch);
      for (int64_t c = 0; c < channels; ++c) {
        if (batch_stats) {
          moving_mean[c] = moving_mean[c] * momentum + mean[c] * (1 - momentum);
          moving_var[c] = moving_var[c] * momentum + variance[c] * (1 - momentum);
        } else if (mean) {
          mean[c] = moving_mean[c];
        }
        if (inv_std) inv_std[c] = 1 / std::sqrt(variance[c] + eps);
      }
    };
    return plan;
  });
}

bool can_fuse(const PlanRequest& so_far, const PostOp& candidate, const TensorSpec* extra) {
  const auto& p = *static_cast<const BatchNormParams*>(so_far.params);
  if (so_far.training || !takes(so_far, p, 0, 1) || !so_far.post_ops.empty() ||
      !can_fuse_activation(so_far, candidate, extra))
    return false;
  const Eltwise e = *eltwise_of(*candidate.op, candidate.params.get());
  return e.algorithm == dnnl::algorithm::eltwise_relu && e.alpha == 0;
}

std::optional<Plan> plan_backward(const PlanRequest& r) {
  return guarded("_batch_norm_backward", [&]() -> std::optional<Plan> {
    const auto& p = *static_cast<const BatchNormGradParams*>(r.params);
    if (!takes(r, p, 1, 2)) return std::nullopt;
    if (auto plan = plan_own_norm_backward(r)) return plan;
    if (p.batch_stats && r.layouts[1].is_plain()) return std::nullopt;
    const Desc data = desc_of(r.layouts[1], r.inputs[1]);
    apply_thread_count(memory_work(data, 3));
    const Flags flags = flags_of(p, !p.batch_stats);
    const float eps = static_cast<float>(p.eps);
    const dnnl::batch_normalization_forward::primitive_desc hint(
        engine(), dnnl::prop_kind::forward_training, data, data, eps, flags, user_scratchpad(),
        /*allow_empty=*/true);
    if (!hint.get(true)) return std::nullopt;
    const dnnl::batch_normalization_backward::primitive_desc pd(
        engine(), dnnl::prop_kind::backward, data, data, data, eps, flags, hint, user_scratchpad(),
        /*allow_empty=*/true);
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    for (size_t i = 0; i < 5; ++i) plan.inputs.push_back({nullptr, r.inputs[i].bytes()});
    plan.inputs[0] = plan.inputs[1] = r.layouts[1];
    plan.outputs = {r.layouts[1], plan.inputs[2], plan.inputs[2]};
    const int64_t channels = r.inputs[1].shape[1];
    auto primitive = std::make_shared<const Primitive>(pd);
    const size_t variance_at = (primitive->scratch_bytes() + 63) / 64 * 64;
    plan.scratch_bytes = variance_at + stats_bytes(channels);
    plan.run = [=, fix_gamma = p.fix_gamma](KernelContext&, std::span<void* const> in,
                                            std::span<void* const> out, void* scratch) {
      auto* const variance =
          reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + variance_at);
      const auto* const inv_std = static_cast<const float*>(in[4]);
      for (int64_t c = 0; c < channels; ++c)
        variance[c] = std::max(1 / (inv_std[c] * inv_std[c]) - eps, 0.0f);
      primitive->run({{DNNL_ARG_DIFF_DST, in[0]},
                      {DNNL_ARG_SRC, in[1]},
                      {DNNL_ARG_SCALE, fix_gamma ? nullptr : in[2]},
                      {DNNL_ARG_MEAN, in[3]},
                      {DNNL_ARG_VARIANCE, variance},
                      {DNNL_ARG_DIFF_SRC, out[0]},
                      {DNNL_ARG_DIFF_SCALE, fix_gamma ? nullptr : out[1]},
                      {DNNL_ARG_DIFF_SHIFT, out[2]}},
                     scratch);
      if (fix_gamma) std::fill_n(static_cast<float*>(out[1]), channels, 0.0f);
    };
    return plan;
  });
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "BatchNorm", DeviceType::kCPU, {plan_forward, can_fuse});
  add_planned_kernel(ops, "_batch_norm_backward", DeviceType::kCPU, {plan_backward});
});

}  // namespace mxlite::onednn
