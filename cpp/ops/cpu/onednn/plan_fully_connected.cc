// FullyConnected inside executables. float32 weights are not packed, because a packed copy of VGG's
// or AlexNet's weights would double the memory and gain little speed. bfloat16 weights are packed,
// because the instructions need pairs of rows. Constant weights are packed once, other weights once
// per run, because oneDNN would pack them again for every 256 rows of data.
#include "cpp/ops/cpu/matrix_vector.h"
#include "cpp/ops/cpu/onednn/fully_connected.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/post_ops.h"
#include "cpp/ops/cpu/packed_product.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

// Plans the float32 product for a single image with our own kernel.
std::optional<Plan> plan_matrix_vector(const PlanRequest& r) {
  const auto& p = *static_cast<const FullyConnectedParams*>(r.params);
  const RowsColumns size = fully_connected_rows(p, r.inputs[0].shape);
  const auto post = simple_post_ops(r.post_ops);
  if (size.rows != 1 || r.inputs[0].dtype != DType::kFloat32 || !post || post->add)
    return std::nullopt;
  Plan plan;
  for (const TensorSpec& input : r.inputs) plan.inputs.push_back({nullptr, input.bytes()});
  plan.outputs = {{nullptr, r.outputs[0].bytes()}};
  plan.run = [rows = p.num_hidden, columns = size.columns, bias = !p.no_bias, relu = post->relu](
                 KernelContext&, std::span<void* const> in, std::span<void* const> out, void*) {
    cpu::matrix_vector({.matrix = static_cast<const float*>(in[1]),
                        .rows = rows,
                        .columns = columns,
                        .stride = columns,
                        .x = static_cast<const float*>(in[0]),
                        .start = bias ? static_cast<const float*>(in[2]) : nullptr,
                        .y = static_cast<float*>(out[0]),
                        .relu = relu});
  };
  return plan;
}

std::optional<Plan> plan(const PlanRequest& r) {
  return guarded("FullyConnected", [&]() -> std::optional<Plan> {
    if (!is_plannable(r)) return std::nullopt;
    if (auto own = plan_matrix_vector(r)) return own;
    const auto& p = *static_cast<const FullyConnectedParams*>(r.params);
    const RowsColumns size = fully_connected_rows(p, r.inputs[0].shape);
    const DType dtype = r.inputs[0].dtype;
    const size_t own = p.no_bias ? 2 : 3;
    const Desc bias = own > 2 ? plain_desc(r.inputs[2]) : Desc();
    const Desc plain = plain_desc(r.inputs[1]);
    const bool pack_each_run = !r.constant[1] && dtype == DType::kBFloat16 && cpu::has_avx512() &&
                               cpu::is_worth_packing(size.rows, p.num_hidden, size.columns);
    const bool pack = pack_each_run || (is_half(dtype) && r.constant[1]);
    const auto pd = product_desc(size, p.num_hidden, dtype, bias, pack ? any_desc(plain) : plain,
                                 fused_attr(r.post_ops), pack_each_run);
    if (!pd.get(true)) return std::nullopt;
    Plan plan;
    for (size_t i = 0; i < r.inputs.size(); ++i)
      plan.inputs.push_back({nullptr, r.inputs[i].bytes()});
    plan.outputs = {{nullptr, r.outputs[0].bytes()}};
    if (pack) {
      const Desc packed = pd.query_md(dnnl::query::weights_md);
      plan.inputs[1] = make_layout(pack_each_run ? packed.permute_axes({1, 0}) : packed);
    }
    if (count_additions(r.post_ops)) plan.required_inplace.push_back({static_cast<int>(own), 0});
    Binding binding{{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS}, {DNNL_ARG_DST}};
    if (own > 2) binding.inputs.push_back(DNNL_ARG_BIAS);
    bind_run(plan, pd, std::move(binding));
    return plan;
  });
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "FullyConnected", DeviceType::kCPU, {plan, can_fuse_add_and_activation});
});

}  // namespace mxlite::onednn
