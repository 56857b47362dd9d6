#include "cpp/ops/tensor/index_array.h"

#include <cstring>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void index_array_native(KernelContext&, const IndexArrayParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const Strides steps = contiguous_strides(shape);
  Shape axes;
  for (int i = 0; i < shape.ndim(); ++i) axes.push_back(i);
  if (p.axes) axes = *p.axes;
  int64_t* to = out[0].as<int64_t>();
  const int64_t count = shape.size();
  for (int64_t i = 0; i < count; ++i)
    for (const int64_t given : axes) {
      const int axis = static_cast<int>(given < 0 ? given + shape.ndim() : given);
      *to++ = i / steps[axis] % shape[axis];
    }
}

void arange_like_native(KernelContext&, const ArangeLikeParams& p, Inputs, Outputs out) {
  dispatch_dtype(out[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    const int64_t count = out[0].size();
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(static_cast<ComputeType<T>>(p.start + p.step * (i / p.repeat)));
  });
}

void index_copy_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  if (in[2].size() == 0) return;
  const int64_t* const rows = cpu::index_values(ctx, in[1]);
  const int64_t count = in[1].size(), num_rows = in[0].shape[0];
  const size_t row_bytes = in[2].bytes() / static_cast<size_t>(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows[i] < 0 ? rows[i] + num_rows : rows[i];
    MX_CHECK_KIND(row >= 0 && row < num_rows, ErrorKind::kIndex, "_contrib_index_copy: index ",
                  rows[i], " is out of range for old_tensor of shape ", in[0].shape);
    std::memcpy(out[0].as<char>() + row * static_cast<int64_t>(row_bytes),
                in[2].as<char>() + i * static_cast<int64_t>(row_bytes), row_bytes);
  }
}

}  // namespace

static const Registration index_array_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&index_array_native>("_contrib_index_array", kStrided);
  ops.cpu_kernel<&arange_like_native>("_contrib_arange_like", kStrided);
  ops.cpu_kernel<&index_copy_native>("_contrib_index_copy");
});

}  // namespace mxlite
