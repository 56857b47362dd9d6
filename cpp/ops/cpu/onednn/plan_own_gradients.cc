// Gradients of convolutions with our own kernels: Winograd for 3 x 3 and 5 x 5 in float32.
#include "cpp/ops/cpu/nn/winograd/winograd.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/nn/convolution.h"

namespace mxlite::onednn {
namespace {

// Returns the problem of the forward convolution, or nullopt if Winograd does not support it.
std::optional<cpu::WinogradProblem> problem_of(const ConvolutionParams& p, const Shape& data) {
  if (data.ndim() != 4 || p.channels_last() || p.num_group != 1 || data[1] % 16 != 0 ||
      p.num_filter % 16 != 0)
    return std::nullopt;
  const SpatialWindow w = p.window();
  const auto both = [](const int64_t(&v)[3], int64_t x) { return v[1] == x && v[2] == x; };
  if (!(both(w.kernel, 3) || both(w.kernel, 5)) || !both(w.stride, 1) || !both(w.dilate, 1) ||
      w.pad[1] >= w.kernel[1] || w.pad[2] >= w.kernel[2])
    return std::nullopt;
  cpu::WinogradProblem problem{.batch = data[0],
                               .height = data[2],
                               .width = data[3],
                               .channels = data[1],
                               .filters = p.num_filter,
                               .pad_height = w.pad[1],
                               .pad_width = w.pad[2],
                               .kernel = static_cast<int>(w.kernel[1])};
  problem.threads = cpu::winograd_threads(problem);
  return problem;
}

}  // namespace

// Convolves the output's gradient with the weights rotated by 180 degrees.
std::optional<Plan> plan_own_backward_data(const PlanRequest& r) {
  if (!is_plannable(r) || r.inputs[0].dtype != DType::kFloat32) return std::nullopt;
  const auto& p = *static_cast<const ConvolutionDataGradParams*>(r.params);
  const Shape &grad = r.inputs[0].shape, &data = r.outputs[0].shape;
  const auto forward = problem_of(p, data);
  if (!forward) return std::nullopt;
  const PixelLayout pixels = pixel_layout(r.layouts[0], grad);
  cpu::WinogradProblem problem = *forward;
  problem.height = grad[2];
  problem.width = grad[3];
  problem.channels = grad[1];
  problem.filters = data[1];
  problem.pad_height = problem.kernel - 1 - forward->pad_height;
  problem.pad_width = problem.kernel - 1 - forward->pad_width;
  problem.data_blocked = problem.output_blocked = pixels.blocked;
  problem.rotated = true;
  if (problem.tiles() < cpu::winograd_least_tiles()) return std::nullopt;
  Plan plan;
  plan.inputs = {pixels.layout, make_layout(winograd_rotated_desc(r.inputs[1].shape))};
  plan.outputs = {
      make_layout(pixels.blocked ? blocked_of(data) : channels_last_of(data, DType::kFloat32))};
  plan.scratch_bytes = cpu::winograd_scratch_bytes(problem, /*transformed=*/false);
  plan.run = [problem](KernelContext&, std::span<void* const> in, std::span<void* const> out,
                       void* scratch) {
    cpu::winograd_convolution(problem,
                              {.data = static_cast<const float*>(in[0]),
                               .weight = static_cast<const float*>(in[1]),
                               .transformed = nullptr,
                               .bias = nullptr,
                               .output = static_cast<float*>(out[0]),
                               .add = false,
                               .relu = false},
                              scratch);
  };
  return plan;
}

std::optional<Plan> plan_own_backward_weight(const PlanRequest& r) {
  if (!is_plannable(r) || r.inputs[0].dtype != DType::kFloat32) return std::nullopt;
  const auto& p = *static_cast<const ConvolutionParams*>(r.params);
  auto problem = problem_of(p, r.inputs[1].shape);
  if (!problem || problem->tiles() < cpu::winograd_least_tiles()) return std::nullopt;
  const PixelLayout grad = pixel_layout(r.layouts[0], r.inputs[0].shape);
  const PixelLayout data = pixel_layout(r.layouts[1], r.inputs[1].shape);
  problem->data_blocked = data.blocked;
  problem->output_blocked = grad.blocked;
  Plan plan;
  plan.inputs = {grad.layout, data.layout};
  plan.outputs = {make_layout(winograd_weight_desc(r.outputs[0].shape))};
  const bool bias = r.outputs.size() > 1;
  if (bias) plan.outputs.push_back({nullptr, r.outputs[1].bytes()});
  plan.scratch_bytes = cpu::winograd_weight_grad_scratch_bytes(*problem);
  plan.run = [problem = *problem, bias](KernelContext&, std::span<void* const> in,
                                        std::span<void* const> out, void* scratch) {
    cpu::winograd_weight_grad(problem,
                              {.data = static_cast<const float*>(in[1]),
                               .output_grad = static_cast<const float*>(in[0]),
                               .weight_grad = static_cast<float*>(out[0]),
                               .bias_grad = bias ? static_cast<float*>(out[1]) : nullptr},
                              scratch);
  };
  return plan;
}

}  // namespace mxlite::onednn
