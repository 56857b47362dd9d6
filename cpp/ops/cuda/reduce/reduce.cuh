// Reductions over any axes, in two launches: blocks make partial results of parts of the reduced
// elements, then the parts of each result are joined in a wider type (double for float).
#pragma once
#pragma nv_diag_suppress 186  // functors of unsigned types compare with zero
#include "cpp/ops/cpu/reduce/reducers.h"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/reduce/reduce.h"

namespace mxlite::cuda {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

struct ReducePlan {
  Walk<1> kept, reduced;
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t splits = 1;
  bool columns = false;  // neighbouring threads work on neighbouring results
};

inline ReducePlan make_reduce_plan(const TensorRef& in, const AxisMask& reduced) {
  constexpr int64_t kBlocksWanted = 1024, kMaxSplits = 256, kLeastPerSplit = 2048;
  ReducePlan plan;
  plan.data = in.data;
  plan.dtype = in.dtype;
  int inner = -1;  // the axis whose elements are neighbours
  for (int i = 0; i < in.shape.ndim(); ++i) {
    (reduced[i] ? plan.reduced : plan.kept).add(in.shape[i], {in.strides[i]});
    if (in.shape[i] > 1 && in.strides[i] == 1) inner = i;
  }
  plan.kept.finish();
  plan.reduced.finish();
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  plan.columns = inner >= 0 && !reduced[inner] && in.shape[inner] >= kWarp / 2;
  const int64_t blocks = plan.columns ? (results + kWarp - 1) / kWarp : results;
  const int64_t least = plan.columns ? 64 : kLeastPerSplit;
  plan.splits = std::clamp<int64_t>(
      std::min(kBlocksWanted / std::max<int64_t>(blocks, 1), n / least), 1, kMaxSplits);
  return plan;
}

template <class R, class T>
__device__ __forceinline__ T join_warp(T v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    v = R::join(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

template <class R, class T>
__global__ void reduce_rows(const __grid_constant__ ReducePlan plan, const T* centers, T* partial) {
  __shared__ T parts[kWarp];
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < results * plan.splits; task += gridDim.x) {
    const int64_t result = task % results, split = task / results;
    const int64_t end = n * (split + 1) / plan.splits;
    int64_t base[1], at[1];
    plan.kept.offsets(result, base);
    const T center = centers ? centers[result] : T(0);
    T total = R::template start<T>();
    for (int64_t i = n * split / plan.splits + threadIdx.x; i < end; i += blockDim.x) {
      plan.reduced.offsets(i, at);
      total = R::step(total, load_as<T>(plan.data, plan.dtype, base[0] + at[0]), center);
    }
    total = join_warp<R>(total);
    __syncthreads();
    if (lane == 0) parts[warp] = total;
    __syncthreads();
    if (warp == 0) {
      total = lane < static_cast<int>(blockDim.x / kWarp) ? parts[lane] : R::template start<T>();
      total = join_warp<R>(total);
      if (lane == 0) partial[task] = total;
    }
  }
}

// A warp reads neighbouring results' elements; the block's warps share the reduced elements.
template <class R, class T>
__global__ void reduce_columns(const __grid_constant__ ReducePlan plan, const T* centers,
                               T* partial) {
  constexpr int kLines = kThreads / kWarp;
  __shared__ T parts[kLines][kWarp];
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  const int64_t tiles = (results + kWarp - 1) / kWarp;
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < tiles * plan.splits; task += gridDim.x) {
    const int64_t result = task % tiles * kWarp + lane, split = task / tiles;
    const int64_t end = n * (split + 1) / plan.splits;
    T total = R::template start<T>();
    if (result < results) {
      int64_t base[1], at[1];
      plan.kept.offsets(result, base);
      const T center = centers ? centers[result] : T(0);
      for (int64_t i = n * split / plan.splits + line; i < end; i += kLines) {
        plan.reduced.offsets(i, at);
        total = R::step(total, load_as<T>(plan.data, plan.dtype, base[0] + at[0]), center);
      }
    }
    __syncthreads();
    parts[line][lane] = total;
    __syncthreads();
    if (line == 0 && result < results) {
      for (int k = 1; k < kLines; ++k) total = R::join(total, parts[k][lane]);
      partial[split * results + result] = total;
    }
  }
}

// Final operation on the joined total.
struct Finish {
  bool root = false;
  int64_t divisor = 0;  // used with `mean`
  bool mean = false;
};

template <class W>
__device__ __forceinline__ W finished(const Finish& f, W total) {
  if (f.root) return static_cast<W>(sqrt(static_cast<double>(total)));
  if (!f.mean) return total;
  if constexpr (std::is_integral_v<W>)
    return f.divisor ? total / static_cast<W>(f.divisor) : W(0);
  else
    return total / static_cast<W>(f.divisor);  // NaN for no elements, as NumPy
}

template <class R, class T>
__global__ void join_splits(int64_t results, int64_t splits, const T* partial, Finish finish,
                            void* out, DType dtype, T* centers) {
  using W = Wide<T>;
  for (int64_t i = global_index(); i < results; i += grid_stride()) {
    W total = R::template start<W>();
    for (int64_t s = 0; s < splits; ++s)
      total = R::join(total, static_cast<W>(partial[s * results + i]));
    total = finished(finish, total);
    store_any<W>(out, dtype, i, total);
    if (centers) centers[i] = static_cast<T>(total);
  }
}

template <class T>
size_t partial_count(const ReducePlan& plan) {
  return static_cast<size_t>(plan.splits * plan.kept.total());
}

// Writes partial_count values: those of every result's parts, part by part.
template <class R, class T>
void reduce_parts(KernelContext& ctx, const ReducePlan& plan, const T* centers, T* partial) {
  const int64_t results = plan.kept.total();
  const int64_t tasks = plan.splits * (plan.columns ? (results + kWarp - 1) / kWarp : results);
  if (plan.columns) {
    launch(ctx, reduce_columns<R, T>, blocks_per_task(ctx, tasks), kThreads, plan, centers,
           partial);
  } else {
    const int64_t per_task = plan.reduced.total() / plan.splits;
    const auto threads =
        static_cast<unsigned>(std::clamp<int64_t>((per_task + 31) / 32 * 32, 32, kThreads));
    launch(ctx, reduce_rows<R, T>, blocks_per_task(ctx, tasks), threads, plan, centers, partial);
  }
}

// out = finish(reduction); `partial` has room for partial_count values. centers_out also gets it.
template <class R, class T>
void reduce(KernelContext& ctx, const ReducePlan& plan, const T* centers, T* partial,
            const Finish& finish, const TensorRef& out, T* centers_out = nullptr) {
  const int64_t results = plan.kept.total();
  reduce_parts<R>(ctx, plan, centers, partial);
  launch_items(ctx, join_splits<R, T>, results, results, plan.splits, partial, finish, out.data,
               out.dtype, centers_out);
}

template <class R>
void run_reduction(KernelContext& ctx, const AxisMask& reduced, const TensorRef& in,
                   const TensorRef& out, const Finish& finish) {
  if (out.size() == 0) return;
  const ReducePlan plan = make_reduce_plan(in, reduced);
  dispatch_sum(in.dtype, [&]<class T>(T) {
    auto* partial = static_cast<T*>(ctx.scratch(partial_count<T>(plan) * sizeof(T)));
    reduce<R, T>(ctx, plan, nullptr, partial, finish, out);
  });
}

template <class R>
void plain_reduction(KernelContext& ctx, const ReduceParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p.axis, p.exclude, in[0].shape.ndim());
  run_reduction<R>(ctx, mask, in[0], out[0], {});
}

}  // namespace mxlite::cuda
