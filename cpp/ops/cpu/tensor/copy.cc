// Operators that move values: copies and conversions.
#include "cpp/ndarray/copy.h"

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/cast.h"

namespace mxlite {
namespace {

void copy(const TensorRef& from, const TensorRef& to) {
  if (from.dtype == to.dtype) {
    if (from.data != to.data)
      cpu::strided_copy(dtype_size(to.dtype), to.shape, to.data, to.strides, from.data,
                        from.strides);
    return;
  }
  copy_strided(to.shape, {from.data, from.dtype, from.strides}, {to.data, to.dtype, to.strides},
               cpu_threads());
}

template <class P>
void copy_all(KernelContext&, const P&, Inputs in, Outputs out) {
  for (size_t i = 0; i < out.size(); ++i) copy(in[i], out[i]);
}

}  // namespace

static const Registration copy_registration(Stage::kKernels, [](OpRegistry& ops) {
  for (const char* op : {"_copy", "_copyto", "BlockGrad", "make_loss"})
    ops.cpu_kernel<&copy_all<NoParams>>(op, kStrided);
  for (const char* op : {"Cast", "amp_cast"}) ops.cpu_kernel<&copy_all<CastParams>>(op, kStrided);
  ops.cpu_kernel<&copy_all<AmpMulticastParams>>("amp_multicast", kStrided);
});

}  // namespace mxlite
