#include "cpp/ops/tensor/one_hot.h"

#include <algorithm>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void one_hot_native(KernelContext& ctx, const OneHotParams& p, Inputs in, Outputs out) {
  const int64_t* const indices = cpu::index_values(ctx, in[0]);
  const int64_t count = in[0].size();
  dispatch_dtype(p.dtype, [&]<class T>(T) {
    const T on = p.on_value.as<T>();
    const T off = p.off_value.as<T>();
    T* const to = out[0].as<T>();
    std::fill_n(to, out[0].size(), off);
    for (int64_t i = 0; i < count; ++i)
      if (indices[i] >= 0 && indices[i] < p.depth) to[i * p.depth + indices[i]] = on;
  });
}

void ravel_native(KernelContext& ctx, const RavelParams& p, Inputs in, Outputs out) {
  const int64_t count = out[0].size();
  int64_t* flat = nullptr;
  const int64_t* const data = cpu::index_values(ctx, in[0], count, &flat);
  for (int64_t i = 0; i < count; ++i) {
    int64_t index = 0;
    for (int axis = 0; axis < p.shape.ndim(); ++axis)
      index = (axis ? index * p.shape[axis] : 0) + data[axis * count + i];
    flat[i] = index;
  }
  cpu::store_index_values(flat, count, out[0]);
}

void unravel_native(KernelContext& ctx, const RavelParams& p, Inputs in, Outputs out) {
  const int64_t count = in[0].size();
  int64_t* coordinates = nullptr;
  const int64_t* const data = cpu::index_values(ctx, in[0], out[0].size(), &coordinates);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = data[i];
    for (int axis = p.shape.ndim() - 1; axis > 0; --axis) {
      coordinates[axis * count + i] = rest % p.shape[axis];
      rest /= p.shape[axis];
    }
    coordinates[i] = rest;
  }
  cpu::store_index_values(coordinates, out[0].size(), out[0]);
}

void fill_element_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  const int64_t* const indices = cpu::index_values(ctx, in[2]);
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    for (int64_t i = 0; i < rows; ++i)
      out[0].as<T>()[i * columns + std::clamp<int64_t>(indices[i], 0, columns - 1)] =
          in[1].as<T>()[i];
  });
}

}  // namespace

static const Registration one_hot_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&one_hot_native>("one_hot");
  ops.cpu_kernel<&ravel_native>("ravel_multi_index");
  ops.cpu_kernel<&unravel_native>("unravel_index");
  ops.cpu_kernel<&fill_element_native>("fill_element_0index");
});

}  // namespace mxlite
