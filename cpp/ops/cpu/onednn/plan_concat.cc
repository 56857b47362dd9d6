// Concat of channels-last tensors: rows of every input side by side, in one pass.
#include <cstring>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite::onednn {
namespace {

std::optional<Plan> plan(const PlanRequest& r) {
  const Shape& shape = r.outputs[0].shape;
  const int ndim = shape.ndim();
  bool any_packed = false;
  for (const Layout& l : r.layouts) any_packed |= !l.is_plain();
  if (!any_packed || ndim < 3 || ndim > 5 || !is_plannable(r)) return std::nullopt;
  const int axis = normalize_axis("Concat", static_cast<const ConcatParams*>(r.params)->dim, ndim);
  const DType dtype = r.outputs[0].dtype;
  // Inputs that are neither channels-last yet nor equal to it in memory are reordered.
  Plan plan;
  for (const TensorSpec& s : r.inputs) {
    if (s.dtype != dtype) return std::nullopt;
    plan.inputs.push_back(make_layout(channels_last_of(s.shape, dtype)));
  }
  plan.outputs = {make_layout(channels_last_of(shape, dtype))};
  // Position of the axis in memory: N, spatial, C.
  const auto inner_size = [&](const Shape& s) {
    int64_t n = s[axis];
    if (axis == 1) return n;
    n *= s[1];
    for (int i = axis == 0 ? 2 : axis + 1; i < ndim; ++i) n *= s[i];
    return n;
  };
  std::vector<size_t> widths;
  size_t row = 0;
  for (const TensorSpec& s : r.inputs) {
    widths.push_back(static_cast<size_t>(inner_size(s.shape)) * dtype_size(dtype));
    row += widths.back();
  }
  const int64_t rows = row ? static_cast<int64_t>(r.outputs[0].bytes() / row) : 0;
  plan.run = [widths, row, rows](KernelContext&, std::span<void* const> in,
                                 std::span<void* const> out, void*) {
    constexpr size_t kParallelBytes = 1 << 17;
    auto* const target = static_cast<std::byte*>(out[0]);
#pragma omp parallel for if (row * rows > kParallelBytes) num_threads(cpu_threads())
    for (int64_t i = 0; i < rows; ++i) {
      std::byte* at = target + static_cast<size_t>(i) * row;
      for (size_t k = 0; k < widths.size(); ++k) {
        std::memcpy(at, static_cast<const std::byte*>(in[k]) + static_cast<size_t>(i) * widths[k],
                    widths[k]);
        at += widths[k];
      }
    }
  };
  return plan;
}

}  // namespace

void plan_concat() { add_planned_kernel("Concat", DeviceType::kCPU, {plan}); }

}  // namespace mxlite::onednn
