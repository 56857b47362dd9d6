#include "cpp/ops/cuda/channels_last.h"

#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {
namespace {

const Shape& shape_of(const Layout& layout) {
  return *static_cast<const Shape*>(layout.desc.get());
}

}  // namespace

Shape last_shape(const Shape& shape) {
  Shape last{shape[0]};
  for (int i = 2; i < shape.ndim(); ++i) last.push_back(shape[i]);
  last.push_back(shape[1]);
  return last;
}

Layout channels_last(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  if (s.ndim() < 3 || s[1] == 1 || s.product(2, s.ndim()) == 1) return {nullptr, spec.bytes()};
  return {std::make_shared<const Shape>(s), spec.bytes(), DeviceType::kCUDA};
}

bool is_channels_last(const Layout& layout) {
  return !layout.is_plain() && layout.backend == DeviceType::kCUDA;
}

bool same_channels_last(const Layout& a, const Layout& b) { return shape_of(a) == shape_of(b); }

Plan plan_channels_last_reorder(const TensorSpec& from_spec, const Layout& from,
                                const TensorSpec& to_spec, const Layout& to) {
  MX_ASSERT(from_spec == to_spec);
  const Shape& shape = to_spec.shape;
  // The strides stand in the order of the source's dimensions (N, C, spatial).
  const auto strides = [&](const Layout& layout) {
    if (layout.is_plain()) return contiguous_strides(shape);
    const Strides last = contiguous_strides(last_shape(shape));
    Strides own{last[0], last.back()};
    for (int i = 1; i + 1 < last.ndim(); ++i) own.push_back(last[i]);
    return own;
  };
  // Loops in the order of the destination.
  Walk<2> walk;
  const Strides source = strides(from), target = strides(to);
  const auto add = [&](int axis) { walk.add(shape[axis], {target[axis], source[axis]}); };
  add(0);
  if (to.is_plain()) add(1);
  for (int i = 2; i < shape.ndim(); ++i) add(i);
  if (!to.is_plain()) add(1);
  walk.finish();
  Plan plan;
  plan.inputs = {from};
  plan.outputs = {to};
  plan.run = [walk, bytes = dtype_size(to_spec.dtype)](
                 KernelContext& ctx, std::span<void* const> in, std::span<void* const> out, void*) {
    strided_copy(ctx, bytes, walk, out[0], in[0]);
  };
  return plan;
}

}  // namespace mxlite::cuda
