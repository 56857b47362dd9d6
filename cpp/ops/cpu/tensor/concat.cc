// Each part is copied to a section of the joined array. The section has the strides of the joined
// array and begins at the part's first position along the axis.
#include "cpp/ops/tensor/concat.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Calls copy(part, its shape, address and strides of the part in the joined array) for each part.
// If `stacked`, the parts lack the axis.
void for_each_part(const TensorRef& joined, int axis, bool stacked, Inputs parts, auto&& copy) {
  Strides strides = joined.strides;
  Shape shape = joined.shape;
  if (stacked) {
    strides.erase(axis);
    shape.erase(axis);
  }
  int64_t begin = 0;
  for (const TensorRef& part : parts) {
    const int64_t length = stacked ? 1 : part.shape[axis];
    if (!stacked) shape[axis] = length;
    copy(part, shape, cpu::at(joined.data, begin * joined.strides[axis], dtype_size(part.dtype)),
         strides);
    begin += length;
  }
}

void join(int axis, bool stacked, Inputs in, const TensorRef& joined) {
  for_each_part(joined, axis, stacked, in,
                [](const TensorRef& part, const Shape& shape, void* to, const Strides& strides) {
                  cpu::strided_copy(dtype_size(part.dtype), shape, to, strides, part.data,
                                    part.strides);
                });
}

void split(int axis, bool stacked, const TensorRef& joined, Outputs out) {
  for_each_part(
      joined, axis, stacked, out,
      [](const TensorRef& part, const Shape& shape, const void* from, const Strides& strides) {
        cpu::strided_copy(dtype_size(part.dtype), shape, part.data, part.strides, from, strides);
      });
}

void concat_native(KernelContext&, const ConcatParams& p, Inputs in, Outputs out) {
  join(normalize_axis("Concat", p.dim, out[0].shape.ndim()), false, in, out[0]);
}

void stack_native(KernelContext&, const StackParams& p, Inputs in, Outputs out) {
  join(normalize_axis("stack", p.axis, out[0].shape.ndim()), true, in, out[0]);
}

void slice_channel_native(KernelContext&, const SliceChannelParams& p, Inputs in, Outputs out) {
  split(normalize_axis("SliceChannel", p.axis, in[0].shape.ndim()), p.squeeze_axis, in[0], out);
}

void split_v2_native(KernelContext&, const SplitV2Params& p, Inputs in, Outputs out) {
  split(normalize_axis("_split_v2", p.axis, in[0].shape.ndim()), p.squeeze_axis, in[0], out);
}

}  // namespace

static const Registration concat_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&concat_native>("Concat", kStrided);
  ops.cpu_kernel<&stack_native>("stack", kStrided);
  ops.cpu_kernel<&slice_channel_native>("SliceChannel", kStrided);
  ops.cpu_kernel<&split_v2_native>("_split_v2", kStrided);
});

}  // namespace mxlite
