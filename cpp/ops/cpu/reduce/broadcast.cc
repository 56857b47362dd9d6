#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void broadcast(KernelContext&, const void*, Inputs in, Outputs out) {
  const TensorRef &from = in[0], &to = out[0];
  Strides strides = Shape::filled(to.shape.ndim(), 0);
  const int lead = to.shape.ndim() - from.shape.ndim();
  for (int i = 0; i < from.shape.ndim(); ++i)
    strides[lead + i] = from.shape[i] == 1 ? 0 : from.strides[i];
  cpu::strided_copy(dtype_size(to.dtype), to.shape, to.data, to.strides, from.data, strides);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  for (const char* op : {"broadcast_to", "broadcast_axis", "broadcast_like"})
    ops.add_kernel(op, DeviceType::kCPU, {.run = &broadcast, .strided_inputs = true});
});

}  // namespace mxlite
