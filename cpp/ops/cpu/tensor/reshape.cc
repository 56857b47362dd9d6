// Copying kernel for cases where the output cannot share the input's memory: `out=` and memory
// plans.
#include "cpp/ops/tensor/reshape.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
void reshape_native(KernelContext&, const P&, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
}

}  // namespace

static const Registration reshape_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reshape_native<ReshapeParams>>("Reshape");
  for (const char* op : {"Flatten", "_identity_with_attr_like_rhs"})
    ops.cpu_kernel<&reshape_native<NoParams>>(op);
  ops.cpu_kernel<&reshape_native<ExpandDimsParams>>("expand_dims");
  ops.cpu_kernel<&reshape_native<SqueezeParams>>("squeeze");
  ops.cpu_kernel<&reshape_native<ReshapeLikeParams>>("reshape_like");
});

}  // namespace mxlite
