// Element-wise operators in the layout of their producers: activations and binary operators use
// oneDNN, all other pointwise operators use their plain kernel on the memory as one long row.
#include <string_view>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/cpu/onednn/post_ops.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

// Returns the layout of the first non-plain input that has the output's shape, or a plain layout.
Layout common_layout(const PlanRequest& r) {
  for (size_t i = 0; i < r.inputs.size(); ++i)
    if (!r.layouts[i].is_plain() && r.inputs[i].shape == r.outputs[0].shape) return r.layouts[i];
  return {nullptr, r.outputs[0].bytes()};
}

// Returns a layout with the same order of elements for another type, or nullopt for blocked memory
// of another type.
std::optional<Layout> with_type(const Layout& layout, const TensorSpec& spec) {
  if (layout.is_plain()) return Layout{nullptr, spec.bytes()};
  const Desc& d = format_of(layout).desc;
  const dnnl::memory::data_type type = find_data_type(spec.dtype);
  if (type == dnnl::memory::data_type::undef)
    return std::nullopt;  // oneDNN could not reorder the
                          // type
  if (d.get_data_type() == type) return layout;
  if (d.get_inner_nblks()) return std::nullopt;
  return make_layout(Desc(d.get_dims(), type, d.get_strides()));
}

// Returns whether the operator maps zero to zero, so that padding stays zero.
bool keeps_zero(const PlanRequest& r) {
  const auto& rule = r.op.keeps_zeros;
  return rule && r.inputs.size() == 1 && rule(r.params, r.inputs[0].dtype);
}

std::optional<Plan> plan_any(const PlanRequest& r) {
  const Layout layout = common_layout(r);
  if (layout.is_plain()) return std::nullopt;  // the plain kernel is as fast
  const Desc& d = format_of(layout).desc;
  const auto padded = d.get_padded_dims();
  if (padded != d.get_dims() && !keeps_zero(r)) return std::nullopt;
  int64_t count = 1;
  for (const int64_t extent : padded) count *= extent;
  Plan plan;
  std::vector<TensorSpec> in_specs, out_specs;
  for (const TensorSpec& s : r.inputs) {
    if (s.shape != r.outputs[0].shape) return std::nullopt;
    const auto own = with_type(layout, s);
    if (!own) return std::nullopt;
    plan.inputs.push_back(*own);
    in_specs.push_back({Shape{count}, s.dtype});
  }
  for (const TensorSpec& s : r.outputs) {
    const auto own = with_type(layout, s);
    if (!own || s.shape != r.outputs[0].shape) return std::nullopt;
    plan.outputs.push_back(*own);
    out_specs.push_back({Shape{count}, s.dtype});
  }
  const Kernel& kernel = r.op.select_kernel(DeviceType::kCPU, r.params, in_specs, out_specs);
  std::vector<TensorRef> in, out;
  for (const auto& s : in_specs) in.push_back({nullptr, s.shape, Strides{1}, s.dtype, true});
  for (const auto& s : out_specs) out.push_back({nullptr, s.shape, Strides{1}, s.dtype, true});
  plan.run = [in, out, run = kernel.run, params = r.params](
                 KernelContext& ctx, std::span<void* const> in_data,
                 std::span<void* const> out_data, void*) {
    SmallVector<TensorRef, 3> inputs{std::span<const TensorRef>(in)};
    SmallVector<TensorRef, 2> outputs{std::span<const TensorRef>(out)};
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].data = in_data[i];
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].data = out_data[i];
    run(ctx, params, inputs, outputs);
  };
  return plan;
}

std::optional<Plan> plan_eltwise(const PlanRequest& r) {
  const auto e = eltwise_of(r.op, r.params);
  // oneDNN's relu turns NaN into 0.
  const bool relu = e && e->algorithm == dnnl::algorithm::eltwise_relu && e->alpha == 0;
  if (!e || relu || e->scale != 1 || !is_plannable(r) || r.outputs[0].dtype != r.inputs[0].dtype)
    return plan_any(r);
  return guarded(r.op.name.c_str(), [&]() -> std::optional<Plan> {
    const Desc d = desc_of(r.layouts[0], r.inputs[0]);
    apply_thread_count(memory_work(d));
    const dnnl::eltwise_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference,
                                                   e->algorithm, d, d, e->alpha, e->beta,
                                                   fused_attr(r.post_ops), /*allow_empty=*/true);
    if (!pd.get(true)) return plan_any(r);
    Plan plan;
    plan.inputs = plan.outputs = {r.layouts[0]};
    bind_run(plan, pd, {{DNNL_ARG_SRC}, {DNNL_ARG_DST}});
    return plan;
  });
}

std::optional<dnnl::algorithm> binary_algorithm(std::string_view op) {
  using alg = dnnl::algorithm;
  static constexpr std::pair<std::string_view, alg> kNames[] = {
      {"add", alg::binary_add}, {"sub", alg::binary_sub},     {"mul", alg::binary_mul},
      {"div", alg::binary_div}, {"maximum", alg::binary_max}, {"minimum", alg::binary_min},
  };
  const size_t underscore = op.find('_');
  for (const auto& [name, algorithm] : kNames)
    if (op.substr(underscore + 1) == name) return algorithm;
  return std::nullopt;
}

// Plans a op b, where b has the shape of a, or length 1 along broadcast axes.
std::optional<Plan> plan_binary(const PlanRequest& r) {
  const Shape &a = r.inputs[0].shape, &b = r.inputs[1].shape, &shape = r.outputs[0].shape;
  bool fits = is_plannable(r) && a == shape && b.ndim() == shape.ndim() && shape.ndim() <= 5 &&
              r.inputs[1].dtype == r.inputs[0].dtype && r.outputs[0].dtype == r.inputs[0].dtype;
  for (int i = 0; fits && i < b.ndim(); ++i) fits = b[i] == shape[i] || b[i] == 1;
  const Layout common = common_layout(r);
  // oneDNN broadcasts plain memory with its reference kernel; the native kernel is a hundred times
  // faster.
  if (!fits || (common.is_plain() && b != shape)) return plan_any(r);
  return guarded(r.op.name.c_str(), [&]() -> std::optional<Plan> {
    Plan plan;
    plan.inputs = {common, b == shape ? common : r.layouts[1]};
    const Desc da = desc_of(common, r.inputs[0]), db = desc_of(plan.inputs[1], r.inputs[1]);
    apply_thread_count(memory_work(da, 3));
    const auto algorithm =
        r.op.name == "add_n" ? dnnl::algorithm::binary_add : *binary_algorithm(r.op.name);
    const dnnl::binary::primitive_desc pd(engine(), algorithm, da, db, da, fused_attr(r.post_ops),
                                          /*allow_empty=*/true);
    // oneDNN uses its reference kernel for padded memory and division. This kernel is slow, and
    // clears its output before it reads a second source in the same memory.
    if (!pd.get(true) || std::string_view(pd.impl_info_str()).starts_with("ref"))
      return plan_any(r);
    plan.outputs = {make_layout(pd.dst_desc())};
    bind_run(plan, pd, {{DNNL_ARG_SRC_0, DNNL_ARG_SRC_1}, {DNNL_ARG_DST}});
    return plan;
  });
}

std::optional<Plan> plan_sum(const PlanRequest& r) {
  if (r.inputs.size() == 2) return plan_binary(r);
  if (r.inputs.size() < 2 || !is_plannable(r)) return plan_any(r);
  return guarded("add_n", [&]() -> std::optional<Plan> {
    Plan plan;
    const Layout common = common_layout(r);
    plan.inputs.assign(r.inputs.size(), common);
    const std::vector<Desc> sources(r.inputs.size(), desc_of(common, r.outputs[0]));
    apply_thread_count(memory_work(sources[0], static_cast<double>(sources.size() + 1)));
    const dnnl::sum::primitive_desc pd(engine(), sources[0],
                                       std::vector<float>(r.inputs.size(), 1.0f), sources,
                                       user_scratchpad());
    plan.outputs = {make_layout(pd.dst_desc())};
    Binding binding{{}, {DNNL_ARG_DST}};
    for (size_t i = 0; i < r.inputs.size(); ++i)
      binding.inputs.push_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i));
    bind_run(plan, pd, std::move(binding));
    return plan;
  });
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  for (const char* op : {"Activation", "LeakyReLU", "relu", "sigmoid", "tanh"})
    add_planned_kernel(ops, op, kCPU, {plan_eltwise});
  for (const char* op : {"elemwise_add", "broadcast_add", "elemwise_sub", "elemwise_mul",
                         "elemwise_div", "broadcast_sub", "broadcast_mul", "broadcast_div",
                         "broadcast_maximum", "broadcast_minimum"})
    add_planned_kernel(ops, op, kCPU, {plan_binary});
  add_planned_kernel(ops, "add_n", kCPU, {plan_sum});
  add_pointwise_planned_kernel(kCPU, {plan_any});
});

}  // namespace mxlite::onednn
