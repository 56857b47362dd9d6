// Concat and slice_axis (which computes Concat's gradient) in the layout of their producers. Copies
// each tensor's part of a row with one memcpy.
#include <cstring>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/concat.h"
#include "cpp/ops/tensor/slice.h"

namespace mxlite::onednn {
namespace {

Desc desc_in(bool blocked, const TensorSpec& s) {
  return blocked ? blocked_of(s.shape, s.dtype) : channels_last_of(s.shape, s.dtype);
}

bool lies_in(bool blocked, const Layout& layout, const TensorSpec& s) {
  return !layout.is_plain() && (!blocked || fills_blocks(s.shape)) &&
         same_memory(format_of(layout).desc, desc_in(blocked, s));
}

// Returns the bytes from one index of the dimensions outside the axis to the next, in memory's
// order of dimensions: N, spatial, C, or N, C / 16, spatial, 16.
size_t row_bytes(bool blocked, const TensorSpec& s, int axis) {
  const Shape& shape = s.shape;
  int64_t n = 1;
  for (int i = axis; i < shape.ndim(); ++i) n *= shape[i];
  if (axis > 1) n *= blocked ? channel_block() : shape[1];
  if (axis == 1 && !blocked) n = shape[1];
  return static_cast<size_t>(n) * dtype_size(s.dtype);
}

// Calls copy(row) for all rows.
void for_rows(int64_t rows, size_t bytes, auto&& copy) {
  const auto work = static_cast<int64_t>(bytes) / std::max<int64_t>(1, 2 * rows);
  cpu::parallel_for(rows, work, [&](int64_t i) { copy(static_cast<size_t>(i)); });
}

// Returns whether to concatenate in blocks of channels: all inputs must fill whole blocks, and more
// input bytes must be in blocks than channels-last. Inputs in another layout are reordered.
bool prefers_blocks(const PlanRequest& r) {
  size_t blocked = 0, last = 0;
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    if (!fills_blocks(r.inputs[i].shape)) return false;
    if (lies_in(true, r.layouts[i], r.inputs[i])) blocked += r.inputs[i].bytes();
    if (lies_in(false, r.layouts[i], r.inputs[i])) last += r.inputs[i].bytes();
  }
  return blocked > last;
}

std::optional<Plan> plan_concat_rows(const PlanRequest& r) {
  const TensorSpec& output = r.outputs[0];
  const int ndim = output.shape.ndim();
  bool any_packed = false;
  for (const Layout& l : r.layouts) any_packed |= !l.is_plain();
  if (!any_packed || ndim < 3 || ndim > 5 || !is_plannable(r)) return std::nullopt;
  const int axis = normalize_axis("Concat", static_cast<const ConcatParams*>(r.params)->dim, ndim);
  const bool blocked = prefers_blocks(r);
  Plan plan;
  std::vector<size_t> widths;
  for (const TensorSpec& s : r.inputs) {
    if (s.dtype != output.dtype) return std::nullopt;
    plan.inputs.push_back(make_layout(desc_in(blocked, s)));
    widths.push_back(row_bytes(blocked, s, axis));
  }
  plan.outputs = {make_layout(desc_in(blocked, output))};
  const size_t row = row_bytes(blocked, output, axis), bytes = output.bytes();
  plan.run = [widths, row, bytes](KernelContext&, std::span<void* const> in,
                                  std::span<void* const> out, void*) {
    for_rows(static_cast<int64_t>(bytes / row), bytes, [&](size_t i) {
      std::byte* at = static_cast<std::byte*>(out[0]) + i * row;
      for (size_t k = 0; k < widths.size(); ++k) {
        std::memcpy(at, static_cast<const std::byte*>(in[k]) + i * widths[k], widths[k]);
        at += widths[k];
      }
    });
  };
  return plan;
}

std::optional<Plan> plan_slice_rows(const PlanRequest& r) {
  const TensorSpec &input = r.inputs[0], &output = r.outputs[0];
  const int ndim = input.shape.ndim();
  if (r.layouts[0].is_plain() || ndim < 3 || ndim > 5 || !is_plannable(r)) return std::nullopt;
  const auto& p = *static_cast<const SliceAxisParams*>(r.params);
  const int axis = normalize_axis("slice_axis", p.axis, ndim);
  const int64_t begin = resolve_slice(p, input.shape).begin[axis];
  const bool blocked = lies_in(true, r.layouts[0], input) &&
                       begin % (axis == 1 ? channel_block() : 1) == 0 && fills_blocks(output.shape);
  if (!blocked && !lies_in(false, r.layouts[0], input)) return std::nullopt;
  Plan plan;
  plan.inputs = {r.layouts[0]};
  plan.outputs = {make_layout(desc_in(blocked, output))};
  const size_t from = row_bytes(blocked, input, axis), to = row_bytes(blocked, output, axis);
  const size_t first = from / static_cast<size_t>(input.shape[axis]) * static_cast<size_t>(begin);
  plan.run = [=, bytes = output.bytes()](KernelContext&, std::span<void* const> in,
                                         std::span<void* const> out, void*) {
    for_rows(static_cast<int64_t>(bytes / to), bytes, [&](size_t i) {
      std::memcpy(static_cast<std::byte*>(out[0]) + i * to,
                  static_cast<const std::byte*>(in[0]) + i * from + first, to);
    });
  };
  return plan;
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry& ops) {
  add_planned_kernel(ops, "Concat", DeviceType::kCPU, {plan_concat_rows});
  add_planned_kernel(ops, "slice_axis", DeviceType::kCPU, {plan_slice_rows});
});

}  // namespace mxlite::onednn
