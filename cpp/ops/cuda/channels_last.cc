#include "cpp/ops/cuda/channels_last.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Stored {
  Shape shape;       // the tensor's shape, (N, C, spatial)
  int64_t channels;  // number of channels in memory, including padding
  bool operator==(const Stored&) const = default;
};
const Stored& stored(const Layout& layout) {
  return *static_cast<const Stored*>(layout.desc.get());
}

// Returns strides in the order of the tensor's dimensions (N, C, spatial).
Strides strides_in(const Layout& layout, const Shape& shape) {
  if (layout.is_plain()) return contiguous_strides(shape);
  Shape padded = shape;
  padded[1] = stored(layout).channels;
  const Strides last = contiguous_strides(last_shape(padded));
  Strides own{last[0], last.back()};
  for (int i = 1; i + 1 < last.ndim(); ++i) own.push_back(last[i]);
  return own;
}

}  // namespace

Shape last_shape(const Shape& shape) {
  Shape last{shape[0]};
  for (int i = 2; i < shape.ndim(); ++i) last.push_back(shape[i]);
  last.push_back(shape[1]);
  return last;
}

Layout channels_last(const TensorSpec& spec, int64_t multiple) {
  const Shape& s = spec.shape;
  if (s.ndim() < 3) return {nullptr, spec.bytes()};
  const int64_t channels = (s[1] + multiple - 1) / multiple * multiple;
  if (channels == s[1] && (s[1] == 1 || s.product(2, s.ndim()) == 1))
    return {nullptr, spec.bytes()};
  Shape padded = s;
  padded[1] = channels;
  return {std::make_shared<const Stored>(Stored{s, channels}),
          TensorSpec{padded, spec.dtype}.bytes(), DeviceType::kCUDA};
}

bool is_channels_last(const Layout& layout) {
  return !layout.is_plain() && layout.backend == DeviceType::kCUDA;
}

bool same_channels_last(const Layout& a, const Layout& b) { return stored(a) == stored(b); }

Plan plan_channels_last_reorder(const TensorSpec& from_spec, const Layout& from,
                                const TensorSpec& to_spec, const Layout& to) {
  MX_ASSERT(from_spec == to_spec);
  const Shape& shape = to_spec.shape;
  // Visits elements in the order of the destination.
  Walk<2> walk;
  const Strides source = strides_in(from, shape), target = strides_in(to, shape);
  const auto add = [&](int axis) { walk.add(shape[axis], {target[axis], source[axis]}); };
  add(0);
  if (to.is_plain()) add(1);
  for (int i = 2; i < shape.ndim(); ++i) add(i);
  if (!to.is_plain()) add(1);
  walk.finish();
  const size_t zeros = !to.is_plain() && stored(to).channels > shape[1] ? to.bytes : 0;
  Plan plan;
  plan.inputs = {from};
  plan.outputs = {to};
  plan.run = [walk, zeros, bytes = dtype_size(to_spec.dtype)](
                 KernelContext& ctx, std::span<void* const> in, std::span<void* const> out, void*) {
    zero_bytes(ctx, out[0], zeros);
    strided_copy(ctx, bytes, walk, out[0], in[0]);
  };
  return plan;
}

static const Registration registration(Stage::kPlans, [](OpRegistry&) {
  set_layout_backend(DeviceType::kCUDA, {same_channels_last, plan_channels_last_reorder});
});

}  // namespace mxlite::cuda
