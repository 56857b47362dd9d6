#include "cpp/ops/tensor/transpose.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
void permute_native(KernelContext&, const P& p, Inputs in, Outputs out) {
  const Shape axes = resolve_axes(p, in[0].shape.ndim());
  Strides steps = in[0].strides;
  for (int i = 0; i < axes.ndim(); ++i) steps[i] = in[0].strides[static_cast<int>(axes[i])];
  cpu::strided_copy(dtype_size(in[0].dtype), out[0].shape, out[0].data, out[0].strides, in[0].data,
                    steps);
}

void reverse_axes_native(KernelContext&, const ReverseParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const size_t bytes = dtype_size(in[0].dtype);
  Strides steps = in[0].strides;
  int64_t start = 0;
  for (const int64_t given : p.axis) {
    const int axis = normalize_axis("reverse", given, shape.ndim());
    start += (shape[axis] - 1) * steps[axis];
    steps[axis] = -steps[axis];
  }
  if (shape.size() == 0) return;
  cpu::strided_copy(bytes, shape, out[0].data, out[0].strides, cpu::at(in[0].data, start, bytes),
                    steps);
}

}  // namespace

static const Registration transpose_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&permute_native<TransposeParams>>("transpose", kStrided);
  ops.cpu_kernel<&permute_native<SwapAxisParams>>("SwapAxis", kStrided);
  ops.cpu_kernel<&reverse_axes_native>("reverse", kStrided);
});

}  // namespace mxlite
