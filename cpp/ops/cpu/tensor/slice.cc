#include "cpp/ops/tensor/slice.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct Steps {
  int64_t start = 0;
  Strides strides;
};

// Returns the offset and steps of the region in an array with these strides.
Steps steps_of(const SliceRegion& r, const Strides& strides) {
  Steps s{0, strides};
  for (int i = 0; i < strides.ndim(); ++i) {
    s.start += r.begin[i] * strides[i];
    s.strides[i] = strides[i] * r.step[i];
  }
  return s;
}

void take_region(const SliceRegion& r, const TensorRef& from, const TensorRef& to) {
  if (to.size() == 0) return;
  const size_t bytes = dtype_size(from.dtype);
  const Steps s = steps_of(r, from.strides);
  cpu::strided_copy(bytes, to.shape, to.data, to.strides, cpu::at(from.data, s.start, bytes),
                    s.strides);
}

// `from` has the region's shape or is broadcast to it.
void put_region(const SliceRegion& r, const TensorRef& from, const TensorRef& to) {
  if (r.shape.size() == 0) return;
  const size_t bytes = dtype_size(to.dtype);
  const Steps s = steps_of(r, to.strides);
  Strides from_strides = Strides::filled(r.shape.ndim(), 0);
  const int lead = r.shape.ndim() - from.shape.ndim();
  for (int i = 0; i < from.shape.ndim(); ++i)
    if (from.shape[i] != 1) from_strides[i + lead] = from.strides[i];
  cpu::strided_copy(bytes, r.shape, cpu::at(to.data, s.start, bytes), s.strides, from.data,
                    from_strides);
}

void slice_native(KernelContext&, const SliceParams& p, Inputs in, Outputs out) {
  take_region(resolve_slice("slice", p.begin, p.end, p.step, in[0].shape), in[0], out[0]);
}

void slice_axis_native(KernelContext&, const SliceAxisParams& p, Inputs in, Outputs out) {
  take_region(resolve_slice(p, in[0].shape), in[0], out[0]);
}

void slice_like_native(KernelContext&, const SliceLikeParams&, Inputs in, Outputs out) {
  const int ndim = out[0].shape.ndim();
  take_region({out[0].shape, Shape::filled(ndim, 0), Shape::filled(ndim, 1)}, in[0], out[0]);
}

void slice_backward_native(KernelContext&, const SliceBackwardParams& p, Inputs in, Outputs out) {
  if (in[0].size() < out[0].size()) cpu::zero_fill(out[0].data, out[0].bytes());
  put_region({in[0].shape, p.begin, p.step}, in[0], out[0]);
}

void slice_assign_native(KernelContext&, const SliceParams& p, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  put_region(resolve_slice("_slice_assign", p.begin, p.end, p.step, in[0].shape), in[1], out[0]);
}

void slice_assign_scalar_native(KernelContext&, const SliceAssignScalarParams& p, Inputs in,
                                Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  const auto region = resolve_slice("_slice_assign_scalar", p.begin, p.end, p.step, in[0].shape);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T value = p.scalar.as<T>();
    put_region(region, {&value, Shape(), Strides(), in[0].dtype, true}, out[0]);
  });
}

}  // namespace

static const Registration slice_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&slice_native>("slice", kStrided);
  ops.cpu_kernel<&slice_axis_native>("slice_axis", kStrided);
  ops.cpu_kernel<&slice_like_native>("slice_like", kStrided);
  ops.cpu_kernel<&slice_backward_native>("_slice_backward", kStrided);
  ops.cpu_kernel<&slice_assign_native>("_slice_assign");
  ops.cpu_kernel<&slice_assign_scalar_native>("_slice_assign_scalar");
});

}  // namespace mxlite
