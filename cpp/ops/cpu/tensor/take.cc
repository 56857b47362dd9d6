// Arrays are viewed as (outer, axis, inner): take moves runs of `inner` elements, pick single
// elements.
#include "cpp/ops/tensor/take.h"

#include <cstring>

#include "cpp/ops/cpu/accumulate_rows.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct AxisView {
  int64_t outer, length, inner;
};

AxisView axis_view(const Shape& shape, int given_axis) {
  const int axis = given_axis < 0 ? given_axis + shape.ndim() : given_axis;
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.ndim())};
}

int64_t wrap(int64_t i, int64_t length) {
  const int64_t r = i % length;
  return r < 0 ? r + length : r;
}

int64_t place_taken(IndexMode mode, int64_t i, int64_t length) {
  return mode == IndexMode::kWrap ? wrap(i, length) : std::clamp<int64_t>(i, 0, length - 1);
}
int64_t place_taken(PickMode mode, int64_t i, int64_t length) {
  return mode == PickMode::kWrap ? wrap(i, length) : std::clamp<int64_t>(i, 0, length - 1);
}

void check_range(const int64_t* indices, int64_t count, int64_t length) {
  for (int64_t i = 0; i < count; ++i)
    MX_CHECK_KIND(indices[i] >= 0 && indices[i] < length, ErrorKind::kIndex, "take: index ",
                  indices[i], " is out of range for an axis of length ", length);
}

void take_native(KernelContext& ctx, const TakeParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(in[0].shape, p.axis);
  const int64_t count = in[1].size();
  int64_t* rows = nullptr;
  const int64_t* const indices = cpu::index_values(ctx, in[1], count, &rows);
  if (p.mode == IndexMode::kRaise) {
    check_range(indices, count, v.length);
    for (int64_t i = 0; i < count; ++i) rows[i] = indices[i];
  } else {
    for (int64_t i = 0; i < count; ++i) rows[i] = place_taken(p.mode, indices[i], v.length);
  }
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const to = out[0].as<T>();
    cpu::parallel_ranges(v.outer * count, v.inner, [&](int64_t first, int64_t last, int) {
      int64_t outer = first / count, i = first % count;
      for (int64_t item = first; item < last; ++item) {
        const T* const source = from + (outer * v.length + rows[i]) * v.inner;
        if (v.inner == 1)
          to[item] = *source;
        else
          std::memcpy(to + item * v.inner, source, static_cast<size_t>(v.inner) * sizeof(T));
        if (++i < count) continue;
        i = 0;
        ++outer;
      }
    });
  });
}

void take_backward_native(KernelContext& ctx, const TakeBackwardParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(p.shape, p.axis);
  const int64_t count = in[1].size();
  int64_t* memory = nullptr;
  const int64_t* const indices = cpu::index_values(ctx, in[1], 3 * count, &memory);
  int64_t* const rows = memory + 2 * count;
  for (int64_t i = 0; i < count; ++i) rows[i] = place_taken(p.mode, indices[i], v.length);
  cpu::accumulate_rows({in[0].dtype, v.outer, count, v.length, v.inner, rows, memory}, in[0].data,
                       out[0].data);
}

void pick(KernelContext& ctx, const AxisView& v, PickMode mode, Inputs in, const TensorRef& out) {
  const int64_t* const indices = cpu::index_values(ctx, in[1]);
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const to = out.as<T>();
    const int64_t count = out.size();
    cpu::parallel_for(count, 4, [&](int64_t i) {
      const int64_t row = place_taken(mode, indices[i], v.length);
      to[i] = from[(i / v.inner * v.length + row) * v.inner + i % v.inner];
    });
  });
}

void pick_native(KernelContext& ctx, const PickParams& p, Inputs in, Outputs out) {
  pick(ctx, axis_view(in[0].shape, p.axis), p.mode, in, out[0]);
}

void batch_take_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  pick(ctx, axis_view(in[0].shape, 1), PickMode::kClip, in, out[0]);
}

void pick_backward_native(KernelContext& ctx, const PickBackwardParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(p.shape, p.axis);
  const int64_t* const indices = cpu::index_values(ctx, in[1]);
  cpu::zero_fill(out[0].data, out[0].bytes());
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const to = out[0].as<T>();
    const int64_t count = in[0].size();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = place_taken(p.mode, indices[i], v.length);
      to[(i / v.inner * v.length + row) * v.inner + i % v.inner] = from[i];
    }
  });
}

}  // namespace

static const Registration take_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&take_native>("take");
  ops.cpu_kernel<&take_backward_native>("_take_backward");
  ops.cpu_kernel<&batch_take_native>("batch_take");
  ops.cpu_kernel<&pick_native>("pick");
  ops.cpu_kernel<&pick_backward_native>("_pick_backward");
});

}  // namespace mxlite
