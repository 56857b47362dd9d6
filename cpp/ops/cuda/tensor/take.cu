// Arrays are viewed as (outer, axis, inner): take moves runs of `inner` elements, pick single
// elements. Indices out of range are clipped or wrapped. Mode 'raise' needs the host and is not
// supported.
#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/sort.h"
#include "cpp/ops/tensor/take.h"

namespace mxlite::cuda {
namespace {

struct AxisView {
  int64_t outer, length, inner;
};
AxisView axis_view(const Shape& shape, int given_axis) {
  const int axis = given_axis < 0 ? given_axis + shape.ndim() : given_axis;
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.ndim())};
}

struct Indices {
  const void* data;
  DType dtype;
  bool wrap;
  int64_t length;

  __device__ __forceinline__ int64_t at(int64_t i) const {
    const int64_t given = load_any<int64_t>(data, dtype, i);
    if (!wrap) return given < 0 ? 0 : given < length ? given : length - 1;
    const int64_t rest = given % length;
    return rest < 0 ? rest + length : rest;
  }
};

template <class Word>
__global__ void take_elements(int64_t n, AxisView v, const __grid_constant__ Indices indices,
                              int64_t count, const Word* from, Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t run = i / v.inner, column = i - run * v.inner;
    const int64_t o = run / count, row = indices.at(run - o * count);
    to[i] = from[(o * v.length + row) * v.inner + column];
  }
}

const char* not_raise(const TakeParams& p, std::span<const TensorSpec>,
                      std::span<const TensorSpec>) {
  return p.mode == IndexMode::kRaise ? "mode 'raise' is not supported on CUDA; use 'clip' or 'wrap'"
                                     : nullptr;
}

void take(KernelContext& ctx, const TakeParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(in[0].shape, p.axis);
  const Indices indices{in[1].data, in[1].dtype, p.mode == IndexMode::kWrap, v.length};
  const int64_t n = out[0].size();
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, take_elements<Word>, n, n, v, indices, in[1].size(), in[0].as<Word>(),
                 out[0].as<Word>());
  });
}

__global__ void resolve(int64_t count, const __grid_constant__ Indices indices, int64_t* rows) {
  for (int64_t i = global_index(); i < count; i += grid_stride()) rows[i] = indices.at(i);
}

void take_backward(KernelContext& ctx, const TakeBackwardParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(p.shape, p.axis);
  const int64_t count = in[1].size();
  const Indices indices{in[1].data, in[1].dtype, p.mode == IndexMode::kWrap, v.length};
  RowAccumulation a{in[0].dtype, v.outer, count, v.length, v.inner};
  a.rows = accumulation_rows(ctx, a);
  launch_items(ctx, resolve, count, count, indices, a.rows);
  accumulate_rows(ctx, a, in[0].data, out[0].data);
}

template <class Word>
__global__ void pick_elements(int64_t n, AxisView v, const __grid_constant__ Indices indices,
                              const Word* from, Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[i] = from[(i / v.inner * v.length + indices.at(i)) * v.inner + i % v.inner];
}
template <class Word>
__global__ void put_elements(int64_t n, AxisView v, const __grid_constant__ Indices indices,
                             const Word* from, Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    to[(i / v.inner * v.length + indices.at(i)) * v.inner + i % v.inner] = from[i];
}

void pick_at(KernelContext& ctx, const AxisView& v, bool wrap, Inputs in, const TensorRef& out) {
  const Indices indices{in[1].data, in[1].dtype, wrap, v.length};
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, pick_elements<Word>, out.size(), out.size(), v, indices, in[0].as<Word>(),
                 out.as<Word>());
  });
}
void pick(KernelContext& ctx, const PickParams& p, Inputs in, Outputs out) {
  pick_at(ctx, axis_view(in[0].shape, p.axis), p.mode == PickMode::kWrap, in, out[0]);
}
void batch_take(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  pick_at(ctx, axis_view(in[0].shape, 1), false, in, out[0]);
}
void pick_backward(KernelContext& ctx, const PickBackwardParams& p, Inputs in, Outputs out) {
  const AxisView v = axis_view(p.shape, p.axis);
  const Indices indices{in[1].data, in[1].dtype, p.mode == PickMode::kWrap, v.length};
  zero_bytes(ctx, out[0].data, out[0].bytes());
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, put_elements<Word>, in[0].size(), in[0].size(), v, indices, in[0].as<Word>(),
                 out[0].as<Word>());
  });
}

// One index per element of the indexed or written array: (outer, k, inner).
template <class Word, bool put>
__global__ void along_axis(int64_t n, SortView v, int64_t k,
                           const __grid_constant__ Indices indices, const Word* from, Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t place = (i / (k * v.inner) * v.length + indices.at(i)) * v.inner + i % v.inner;
    if (put)
      to[place] = from[i];
    else
      to[i] = from[place];
  }
}
template <bool put>
void run_along_axis(KernelContext& ctx, const Shape& shape, int axis, Inputs in,
                    const TensorRef& out) {
  const SortView v = sort_view("_take_along_axis", axis, shape);
  const int64_t n = in[1].size(), rows = v.outer * v.inner;
  if (n == 0 || rows == 0) return;
  const Indices indices{in[1].data, in[1].dtype, false, v.length};
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, along_axis<Word, put>, n, n, v, n / rows, indices, in[0].as<Word>(),
                 out.as<Word>());
  });
}
void take_along_axis(KernelContext& ctx, const AlongAxisParams& p, Inputs in, Outputs out) {
  run_along_axis<false>(ctx, in[0].shape, p.axis, in, out[0]);
}
void put_along_axis(KernelContext& ctx, const PutAlongAxisParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  run_along_axis<true>(ctx, out[0].shape, p.axis, in, out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&take>("take", {.supports = supports_if<&not_raise>()});
  ops.cuda_kernel<&take_backward>("_take_backward");
  ops.cuda_kernel<&batch_take>("batch_take");
  ops.cuda_kernel<&pick>("pick");
  ops.cuda_kernel<&pick_backward>("_pick_backward");
  ops.cuda_kernel<&take_along_axis>("_take_along_axis");
  ops.cuda_kernel<&put_along_axis>("_put_along_axis");
});

}  // namespace mxlite::cuda
