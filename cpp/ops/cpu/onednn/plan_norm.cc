// BatchNorm with our own kernels, alone or with a following addition and relu, in the layout of its
// producer.
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/norm/norm.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

// Returns the data's layout, or nullopt if the kernels cannot read it.
std::optional<cpu::NormMemory> memory_of(const PlanRequest& r, const BatchNormParams& p,
                                         size_t data, size_t gamma) {
  const TensorSpec& spec = r.inputs[data];
  const Layout& layout = r.layouts[data];
  const int ndim = spec.shape.ndim();
  if (!is_plannable(r) || layout.is_plain() || ndim != 4 || (p.axis != 1 && p.axis != 1 - ndim) ||
      r.inputs[gamma].dtype != DType::kFloat32 ||
      (spec.dtype != DType::kFloat32 && spec.dtype != DType::kBFloat16))
    return std::nullopt;
  const Desc& desc = format_of(layout).desc;
  const bool blocked = same_memory(desc, blocked_of(spec.shape, spec.dtype));
  if (blocked ? !fills_blocks(spec.shape)
              : !same_memory(desc, channels_last_of(spec.shape, spec.dtype)))
    return std::nullopt;
  return cpu::NormMemory{.block = blocked ? channel_block() : 0,
                         .bfloat16 = spec.dtype == DType::kBFloat16,
                         .batch = spec.shape[0],
                         .pixels = spec.shape[2] * spec.shape[3],
                         .channels = spec.shape[1],
                         .threads = threads_for(memory_work(desc, 3))};
}

template <cpu::NormEnd kEnd>
std::optional<Plan> plan_forward(const PlanRequest& r) {
  const auto& p = *static_cast<const BatchNormParams*>(r.params);
  const auto memory = memory_of(r, p, 0, 1);
  if (!memory) return std::nullopt;
  // In inference, the fusion rule for BatchNorm accepts only relu.
  const cpu::NormEnd end = r.post_ops.empty() ? kEnd : cpu::NormEnd::kRelu;
  Plan plan;
  for (size_t i = 0; i < r.inputs.size(); ++i)
    plan.inputs.push_back({nullptr, r.inputs[i].bytes()});
  plan.inputs[0] = r.layouts[0];
  if (kEnd == cpu::NormEnd::kAddRelu) plan.inputs[5] = r.layouts[0];
  plan.outputs = {r.layouts[0], plan.inputs[3], plan.inputs[3]};
  plan.scratch_bytes = cpu::norm_scratch_bytes(*memory);
  plan.run = [memory = *memory, end, fix_gamma = p.fix_gamma,
              stats = r.training && !p.use_global_stats ? cpu::NormForwardArgs::kBatch
                                                        : cpu::NormForwardArgs::kMoving,
              eps = static_cast<float>(p.eps),
              momentum = p.momentum](KernelContext&, std::span<void* const> in,
                                     std::span<void* const> out, void* scratch) {
    const auto floats = [](void* data) { return static_cast<float*>(data); };
    cpu::norm_forward(memory, end,
                      {.data = in[0],
                       .added = kEnd == cpu::NormEnd::kAddRelu ? in[5] : nullptr,
                       .gamma = fix_gamma ? nullptr : floats(in[1]),
                       .beta = floats(in[2]),
                       .moving_mean = floats(in[3]),
                       .moving_var = floats(in[4]),
                       .output = out[0],
                       .mean = floats(out[1]),
                       .inv_std = floats(out[2]),
                       .eps = eps,
                       .momentum = momentum,
                       .stats = stats},
                      scratch);
  };
  return plan;
}

std::optional<Plan> plan_relu_again(const PlanRequest& r) {
  const auto& p = *static_cast<const BatchNormParams*>(r.params);
  const auto memory = memory_of(r, p, 0, 1);
  if (!memory) return std::nullopt;
  Plan plan;
  for (const TensorSpec& s : r.inputs) plan.inputs.push_back({nullptr, s.bytes()});
  plan.inputs[0] = r.layouts[0];
  plan.outputs = {r.layouts[0]};
  plan.scratch_bytes = cpu::norm_scratch_bytes(*memory);
  plan.run = [memory = *memory, fix_gamma = p.fix_gamma](KernelContext&, std::span<void* const> in,
                                                         std::span<void* const> out,
                                                         void* scratch) {
    const auto floats = [](void* data) { return static_cast<float*>(data); };
    cpu::norm_forward(memory, cpu::NormEnd::kRelu,
                      {.data = in[0],
                       .added = nullptr,
                       .gamma = fix_gamma ? nullptr : floats(in[1]),
                       .beta = floats(in[2]),
                       .moving_mean = nullptr,
                       .moving_var = nullptr,
                       .output = out[0],
                       .mean = floats(in[3]),
                       .inv_std = floats(in[4]),
                       .eps = 0,
                       .momentum = 0,
                       .stats = cpu::NormForwardArgs::kGiven},
                      scratch);
  };
  return plan;
}

template <cpu::NormEnd kEnd>
std::optional<Plan> plan_backward(const PlanRequest& r) {
  constexpr bool kAdd = kEnd == cpu::NormEnd::kAddRelu, kRelu = kEnd == cpu::NormEnd::kRelu;
  constexpr size_t kData = kAdd ? 2 : 1, kGamma = kData + 1;
  constexpr size_t kMean = kRelu ? kGamma + 2 : kGamma + 1;
  const auto& p = *static_cast<const BatchNormGradParams*>(r.params);
  const auto memory = memory_of(r, p, kData, kGamma);
  if (!memory) return std::nullopt;
  Plan plan;
  const Layout layout = r.layouts[kData];
  for (size_t i = 0; i < r.inputs.size(); ++i)
    plan.inputs.push_back(i <= kData ? layout : Layout{nullptr, r.inputs[i].bytes()});
  plan.outputs = {layout, plan.inputs[kGamma], plan.inputs[kGamma]};
  if (kAdd) plan.outputs.push_back(layout);
  plan.scratch_bytes = cpu::norm_scratch_bytes(*memory);
  plan.run = [memory = *memory, fix_gamma = p.fix_gamma, batch_stats = p.batch_stats](
                 KernelContext&, std::span<void* const> in, std::span<void* const> out,
                 void* scratch) {
    const auto floats = [](void* data) { return static_cast<float*>(data); };
    cpu::norm_backward(memory, kEnd,
                       {.grad = in[0],
                        .data = in[kData],
                        .output = kAdd ? in[1] : nullptr,
                        .gamma = fix_gamma ? nullptr : floats(in[kGamma]),
                        .beta = kRelu ? floats(in[kGamma + 1]) : nullptr,
                        .mean = floats(in[kMean]),
                        .inv_std = floats(in[kMean + 1]),
                        .data_grad = out[0],
                        .added_grad = kAdd ? out[3] : nullptr,
                        .gamma_grad = floats(out[1]),
                        .beta_grad = floats(out[2]),
                        .batch_stats = batch_stats},
                       scratch);
  };
  return plan;
}

}  // namespace

std::optional<Plan> plan_own_norm(const PlanRequest& r) {
  return plan_forward<cpu::NormEnd::kPlain>(r);
}
std::optional<Plan> plan_own_norm_backward(const PlanRequest& r) {
  return plan_backward<cpu::NormEnd::kPlain>(r);
}

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  add_planned_kernel(ops, "_batch_norm_relu", kCPU, {plan_forward<cpu::NormEnd::kRelu>});
  add_planned_kernel(ops, "_batch_norm_add_relu", kCPU, {plan_forward<cpu::NormEnd::kAddRelu>});
  add_planned_kernel(ops, "_batch_norm_relu_again", kCPU, {plan_relu_again});
  add_planned_kernel(ops, "_batch_norm_relu_backward", kCPU, {plan_backward<cpu::NormEnd::kRelu>});
  add_planned_kernel(ops, "_batch_norm_add_relu_backward", kCPU,
                     {plan_backward<cpu::NormEnd::kAddRelu>});
});

}  // namespace mxlite::onednn
