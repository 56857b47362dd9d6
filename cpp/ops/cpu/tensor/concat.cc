// All four kernels see the axis as the middle of (outer, length, inner): a part of the joined array
// consists of `outer` rows of part length * inner elements.
#include "cpp/ops/tensor/concat.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

int64_t outer_size(const Shape& joined, int axis) { return joined.product(0, axis); }

void join(int axis, Inputs in, const TensorRef& joined) {
  const size_t bytes = dtype_size(joined.dtype);
  const int64_t outer = outer_size(joined.shape, axis);
  if (joined.size() == 0) return;
  const int64_t row = joined.size() / outer;
  int64_t begin = 0;
  for (const TensorRef& part : in) {
    const int64_t length = part.size() / outer;
    cpu::CopyAxes axes;
    axes.push_back({outer, row, length});
    axes.push_back({length, 1, 1});
    cpu::strided_copy(bytes, axes, cpu::at(joined.data, begin, bytes), part.data);
    begin += length;
  }
}

void split(int axis, const TensorRef& joined, Outputs out) {
  const size_t bytes = dtype_size(joined.dtype);
  const int64_t outer = outer_size(joined.shape, axis);
  if (joined.size() == 0) return;
  const int64_t row = joined.size() / outer;
  int64_t begin = 0;
  for (const TensorRef& part : out) {
    const int64_t length = part.size() / outer;
    cpu::CopyAxes axes;
    axes.push_back({outer, length, row});
    axes.push_back({length, 1, 1});
    cpu::strided_copy(bytes, axes, part.data, cpu::at(joined.data, begin, bytes));
    begin += length;
  }
}

void concat_native(KernelContext&, const ConcatParams& p, Inputs in, Outputs out) {
  join(normalize_axis("Concat", p.dim, out[0].shape.ndim()), in, out[0]);
}

void stack_native(KernelContext&, const StackParams& p, Inputs in, Outputs out) {
  join(normalize_axis("stack", p.axis, out[0].shape.ndim()), in, out[0]);
}

void slice_channel_native(KernelContext&, const SliceChannelParams& p, Inputs in, Outputs out) {
  split(normalize_axis("SliceChannel", p.axis, in[0].shape.ndim()), in[0], out);
}

void split_v2_native(KernelContext&, const SplitV2Params& p, Inputs in, Outputs out) {
  split(normalize_axis("_split_v2", p.axis, in[0].shape.ndim()), in[0], out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&concat_native>("Concat");
  ops.cpu_kernel<&stack_native>("stack");
  ops.cpu_kernel<&slice_channel_native>("SliceChannel");
  ops.cpu_kernel<&split_v2_native>("_split_v2");
});

}  // namespace mxlite
