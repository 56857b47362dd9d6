#include "cpp/ops/tensor/diag.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void place(const DiagonalView& v, const TensorRef& from, const TensorRef& to) {
  const size_t bytes = dtype_size(to.dtype);
  cpu::zero_fill(to.data, to.bytes());
  cpu::strided_copy(bytes, v.shape, cpu::at(to.data, v.start, bytes), v.strides, from.data,
                    from.strides);
}

void diag_native(KernelContext&, const DiagParams& p, Inputs in, Outputs out) {
  if (in[0].shape.ndim() == 1)
    return place(diagonal_view(out[0].shape, out[0].strides, p.k, 0, 1), in[0], out[0]);
  const size_t bytes = dtype_size(in[0].dtype);
  const DiagonalView v = diagonal_view(in[0].shape, in[0].strides, p.k, p.axis1, p.axis2);
  cpu::strided_copy(bytes, v.shape, out[0].data, out[0].strides,
                    cpu::at(in[0].data, v.start, bytes), v.strides);
}

void diag_backward_native(KernelContext&, const DiagBackwardParams& p, Inputs in, Outputs out) {
  place(diagonal_view(out[0].shape, out[0].strides, p.k, p.axis1, p.axis2), in[0], out[0]);
}

}  // namespace

static const Registration diag_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&diag_native>("diag", kStrided);
  ops.cpu_kernel<&diag_backward_native>("_diag_backward", kStrided);
});

}  // namespace mxlite
