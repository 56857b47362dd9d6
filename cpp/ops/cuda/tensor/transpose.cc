#include "cpp/ops/tensor/transpose.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class P>
void permute(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Shape axes = resolve_axes(p, in[0].shape.ndim());
  Strides steps = in[0].strides;
  for (int i = 0; i < axes.ndim(); ++i) steps[i] = in[0].strides[static_cast<int>(axes[i])];
  strided_copy(ctx, dtype_size(in[0].dtype), out[0].shape, out[0].data, out[0].strides, in[0].data,
               steps);
}

void reverse(KernelContext& ctx, const ReverseParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  if (shape.size() == 0) return;
  const size_t bytes = dtype_size(in[0].dtype);
  Strides steps = in[0].strides;
  int64_t start = 0;
  for (const int64_t given : p.axis) {
    const int axis = normalize_axis("reverse", given, shape.ndim());
    start += (shape[axis] - 1) * steps[axis];
    steps[axis] = -steps[axis];
  }
  strided_copy(ctx, bytes, shape, out[0].data, out[0].strides, at(in[0].data, start, bytes), steps);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&permute<TransposeParams>>("transpose", kStrided);
  ops.cuda_kernel<&permute<SwapAxisParams>>("SwapAxis", kStrided);
  ops.cuda_kernel<&cuda::reverse>("reverse", kStrided);
});

}  // namespace mxlite::cuda
