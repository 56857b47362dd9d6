// Helpers for planned kernels that run operators on channels-last tensors.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "cpp/ops/cuda/channels_last.h"
#include "cpp/ops/nn/spatial.h"

namespace mxlite::cuda {

template <class P>
const P& params_of(const PlanRequest& r) {
  return *static_cast<const P*>(r.params);
}

inline bool has_elements(const PlanRequest& r) {
  for (const auto specs : {r.inputs, r.outputs})
    for (const TensorSpec& s : specs)
      if (s.shape.size() == 0) return false;
  return true;
}

inline SpatialLayout last_layout(int ndim) {
  return ndim == 3 ? SpatialLayout::kNWC : ndim == 4 ? SpatialLayout::kNHWC : SpatialLayout::kNDHWC;
}

inline bool any_last(const PlanRequest& r) {
  for (size_t i = 0; i < r.inputs.size(); ++i)
    if (is_channels_last(r.layouts[i])) return true;
  return false;
}

// Returns a plan's `run` that calls a kernel with these tensors at the addresses of the plan's
// arrays. `params` must live as long as the function.
inline auto run_kernel(KernelFn kernel, const void* params, std::vector<TensorRef> in,
                       std::vector<TensorRef> out) {
  return [=](KernelContext& ctx, std::span<void* const> in_data, std::span<void* const> out_data,
             void*) {
    std::vector<TensorRef> inputs = in, outputs = out;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].data = in_data[i];
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].data = out_data[i];
    kernel(ctx, params, inputs, outputs);
  };
}

// Plans the operator's plain kernel. The first num_images_in inputs and num_images_out outputs are
// stored channels-last and passed as plain tensors (N, spatial, C). `params` must describe the
// operator for such tensors.
template <class P>
std::optional<Plan> plan_seen_last(const PlanRequest& r, P params, int num_images_in,
                                   int num_images_out) {
  Plan plan;
  std::vector<TensorSpec> in_specs, out_specs;
  std::vector<TensorRef> in, out;
  const auto see = [](std::span<const TensorSpec> specs, int images, std::vector<Layout>& layouts,
                      std::vector<TensorSpec>& seen, std::vector<TensorRef>& refs) {
    for (size_t i = 0; i < specs.size(); ++i) {
      TensorSpec s = specs[i];
      const bool image = static_cast<int>(i) < images;
      layouts.push_back(image ? channels_last(s) : Layout{nullptr, s.bytes()});
      if (image) s.shape = last_shape(s.shape);
      seen.push_back(s);
      refs.push_back({nullptr, s.shape, contiguous_strides(s.shape), s.dtype, true});
    }
  };
  see(r.inputs, num_images_in, plan.inputs, in_specs, in);
  see(r.outputs, num_images_out, plan.outputs, out_specs, out);
  const auto kept = std::make_shared<const P>(std::move(params));
  const Kernel& kernel = r.op.select_kernel(DeviceType::kCUDA, kept.get(), in_specs, out_specs);
  plan.run = [kept, run = run_kernel(kernel.run, kept.get(), std::move(in), std::move(out))](
                 KernelContext& ctx, std::span<void* const> in_data,
                 std::span<void* const> out_data,
                 void* scratch) { run(ctx, in_data, out_data, scratch); };
  return plan;
}

}  // namespace mxlite::cuda
