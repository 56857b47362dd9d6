#include "cpp/ops/tensor/slice.h"

#include "cpp/ops/cuda/fill.h"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/crop.h"

namespace mxlite::cuda {
namespace {

// Returns the region of an array as a view.
TensorRef region_of(const SliceRegion& r, const TensorRef& t) {
  TensorRef view = t;
  view.shape = r.shape;
  view.contiguous = false;
  int64_t start = 0;
  for (int i = 0; i < t.strides.ndim(); ++i) {
    start += r.begin[i] * t.strides[i];
    view.strides[i] = t.strides[i] * r.step[i];
  }
  view.data = at(t.data, start, dtype_size(t.dtype));
  return view;
}

void take_region(KernelContext& ctx, const SliceRegion& r, const TensorRef& from,
                 const TensorRef& to) {
  if (to.size() == 0) return;
  const TensorRef view = region_of(r, from);
  strided_copy(ctx, dtype_size(from.dtype), to.shape, to.data, to.strides, view.data, view.strides);
}

// `from` has the region's shape or is broadcast to it.
void put_region(KernelContext& ctx, const SliceRegion& r, const TensorRef& from,
                const TensorRef& to) {
  if (r.shape.size() == 0) return;
  const TensorRef view = region_of(r, to);
  strided_copy(ctx, dtype_size(to.dtype), r.shape, view.data, view.strides, from.data,
               broadcast_strides(from.shape, from.strides, r.shape));
}

void slice(KernelContext& ctx, const SliceParams& p, Inputs in, Outputs out) {
  take_region(ctx, resolve_slice("slice", p.begin, p.end, p.step, in[0].shape), in[0], out[0]);
}
void slice_axis(KernelContext& ctx, const SliceAxisParams& p, Inputs in, Outputs out) {
  take_region(ctx, resolve_slice(p, in[0].shape), in[0], out[0]);
}
void slice_like(KernelContext& ctx, const SliceLikeParams&, Inputs in, Outputs out) {
  const int ndim = out[0].shape.ndim();
  take_region(ctx, {out[0].shape, Shape::filled(ndim, 0), Shape::filled(ndim, 1)}, in[0], out[0]);
}

void crop(KernelContext& ctx, const CropParams& p, Inputs in, Outputs out) {
  const auto [row, column] = p.start(in[0].shape, out[0].shape);
  take_region(ctx, {out[0].shape, {0, 0, row, column}, Shape::filled(4, 1)}, in[0], out[0]);
}

void slice_backward(KernelContext& ctx, const SliceBackwardParams& p, Inputs in, Outputs out) {
  if (in[0].size() < out[0].size()) zero_bytes(ctx, out[0].data, out[0].bytes());
  put_region(ctx, {in[0].shape, p.begin, p.step}, in[0], out[0]);
}

void slice_assign(KernelContext& ctx, const SliceParams& p, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  put_region(ctx, resolve_slice("_slice_assign", p.begin, p.end, p.step, in[0].shape), in[1],
             out[0]);
}

void slice_assign_scalar(KernelContext& ctx, const SliceAssignScalarParams& p, Inputs in,
                         Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  const auto region = resolve_slice("_slice_assign_scalar", p.begin, p.end, p.step, in[0].shape);
  if (region.shape.size() > 0) fill_value(ctx, region_of(region, out[0]), p.scalar);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::slice>("slice", kStrided);
  ops.cuda_kernel<&slice_axis>("slice_axis", kStrided);
  ops.cuda_kernel<&slice_like>("slice_like", kStrided);
  ops.cuda_kernel<&crop>("Crop");
  ops.cuda_kernel<&slice_backward>("_slice_backward", kStrided);
  ops.cuda_kernel<&slice_assign>("_slice_assign");
  ops.cuda_kernel<&slice_assign_scalar>("_slice_assign_scalar");
});

}  // namespace mxlite::cuda
