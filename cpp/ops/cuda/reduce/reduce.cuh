// Reductions over any axes. Each block reduces all or a part of the inputs of one result. If a
// result has several parts, a second launch combines them in a wider type (double for float).
#pragma once
#pragma nv_diag_suppress 186  // functors compare values of unsigned types with zero
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
  bool columns = false;  // neighboring threads compute neighboring results
  // Adjacent elements are read in packs: elements of one result, or of neighboring results.
  bool packs = false;
};

// Elements per pack, for every dtype whose compute type is C.
template <class C>
constexpr int kReducePack = std::is_same_v<C, float> ? 8 : 2;

// Returns whether neighboring results are adjacent along this axis.
inline bool last_kept(const Shape& shape, const AxisMask& reduced, int axis) {
  for (int i = axis + 1; i < shape.ndim(); ++i)
    if (!reduced[static_cast<size_t>(i)] && shape[i] > 1) return false;
  return true;
}

inline int64_t pack_of(DType dtype) {
  return dtype == DType::kFloat64 ? kReducePack<double> : kReducePack<float>;
}

// Returns whether every pack begins at a multiple of 16 bytes and belongs to one result or, if
// `columns`, to as many results as it has elements. `inner` is the axis along which elements are
// adjacent.
inline bool packs_fit(const TensorRef& in, const AxisMask& reduced, const ReducePlan& plan,
                      int inner) {
  const auto at_16_bytes = [](int64_t bytes) { return bytes % 16 == 0; };
  if (!is_floating(in.dtype) || inner < 0 ||
      !at_16_bytes(static_cast<int64_t>(reinterpret_cast<uintptr_t>(in.data))))
    return false;
  const int64_t pack = pack_of(in.dtype), size = static_cast<int64_t>(dtype_size(in.dtype));
  if (plan.columns ? in.shape[inner] % pack != 0 || !last_kept(in.shape, reduced, inner)
                   : !plan.reduced.contiguous() || plan.reduced.total() % pack != 0)
    return false;
  for (int i = 0; i < in.shape.ndim(); ++i) {
    const bool walked_in_packs = plan.columns ? i == inner : reduced[static_cast<size_t>(i)];
    if (!walked_in_packs && in.shape[i] > 1 && !at_16_bytes(in.strides[i] * size)) return false;
  }
  return true;
}

inline ReducePlan make_reduce_plan(const TensorRef& in, const AxisMask& reduced) {
  constexpr int64_t kBlocksWanted = 1024, kMaxSplits = 256, kLeastPerSplit = 2048;
  ReducePlan plan;
  plan.data = in.data;
  plan.dtype = in.dtype;
  int inner = -1;  // axis along which elements are adjacent
  for (int i = 0; i < in.shape.ndim(); ++i) {
    (reduced[i] ? plan.reduced : plan.kept).add(in.shape[i], {in.strides[i]});
    if (in.shape[i] > 1 && in.strides[i] == 1) inner = i;
  }
  plan.kept.finish();
  plan.reduced.finish();
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  plan.columns = inner >= 0 && !reduced[inner] && in.shape[inner] >= kWarp / 2;
  plan.packs = packs_fit(in, reduced, plan, inner);
  const int64_t tile = plan.packs ? kWarp * pack_of(in.dtype) : kWarp;
  const int64_t blocks = plan.columns ? (results + tile - 1) / tile : results;
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

// Final operation on the joined total.
struct Finish {
  bool root = false;
  int64_t divisor = 0;  // used with `mean`
  bool mean = false;
  bool to_factor = false;  // returns the power of two that scales the total to about 1
  bool by_center = false;  // divides by the center, by which the values were multiplied
};

template <class W>
__device__ __forceinline__ W finished(const Finish& f, W total) {
  if (f.root) return static_cast<W>(sqrt(static_cast<double>(total)));
  if (!f.mean) return total;
  if constexpr (std::is_integral_v<W>)
    return f.divisor ? total / static_cast<W>(f.divisor) : W(0);
  else
    return total / static_cast<W>(f.divisor);  // NaN if there are no elements, as in NumPy
}

// Destination of the reduced values: partial values, or the result if there is only one part.
template <class T>
struct ReduceTarget {
  T* partial = nullptr;  // null to write the result
  Finish finish;
  void* out = nullptr;  // null if only `centers` receives the result
  DType dtype = DType::kFloat32;
  T* centers = nullptr;        // optional: also receives the result
  const T* factors = nullptr;  // optional: divisors of the results

  __device__ __forceinline__ void write_result(int64_t result, Wide<T> total) const {
    total = finished(finish, total);
    if constexpr (std::is_floating_point_v<T>) {
      if (finish.to_factor) total = reduce::factor_for<T>(static_cast<double>(total));
      if (factors) total /= factors[result];
    }
    if (out) store_any<Wide<T>>(out, dtype, result, total);
    if (centers) centers[result] = static_cast<T>(total);
  }
  __device__ __forceinline__ void write(int64_t result, int64_t split, int64_t results,
                                        T total) const {
    if (partial)
      partial[split * results + result] = total;
    else
      write_result(result, static_cast<Wide<T>>(total));
  }
};

// Reduces the elements begin, begin + step, ... of a result whose first element is at `base`.
template <class R, class T>
__device__ __forceinline__ T reduce_elements(const ReducePlan& plan, int64_t base, int64_t begin,
                                             int64_t end, int64_t step, T center) {
  T total = R::template start<T>();
  int64_t at[1];
  for (int64_t i = begin; i < end; i += step) {
    plan.reduced.offsets(i, at);
    total = R::step(total, load_as<T>(plan.data, plan.dtype, base + at[0]), center);
  }
  return total;
}

// Like the function above in packs of adjacent elements; `begin` and `end` count packs.
template <class R, class T>
__device__ __forceinline__ T reduce_packs(const ReducePlan& plan, int64_t base, int64_t begin,
                                          int64_t end, int64_t step, T center) {
  constexpr int V = kReducePack<T>;
  T total = R::template start<T>();
  for_packed_dtype<T>(plan.dtype, [&]<class E>(E) {
    for (int64_t i = begin; i < end; i += step) {
      T v[V];
      load_pack<E>(plan.data, base + i * V, v);
#pragma unroll
      for (int k = 0; k < V; ++k) total = R::step(total, v[k], center);
    }
  });
  return total;
}

template <class R, class T>
__global__ void reduce_rows(const __grid_constant__ ReducePlan plan, const T* centers,
                            const __grid_constant__ ReduceTarget<T> target) {
  __shared__ T parts[kWarp];
  const int64_t results = plan.kept.total(),
                n = plan.reduced.total() / (plan.packs ? kReducePack<T> : 1);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < results * plan.splits; task += gridDim.x) {
    const int64_t result = task % results, split = task / results;
    const int64_t begin = n * split / plan.splits + threadIdx.x,
                  end = n * (split + 1) / plan.splits;
    int64_t base[1];
    plan.kept.offsets(result, base);
    const T center = centers ? centers[result] : T(0);
    T total = plan.packs ? reduce_packs<R>(plan, base[0], begin, end, blockDim.x, center)
                         : reduce_elements<R>(plan, base[0], begin, end, blockDim.x, center);
    total = join_warp<R>(total);
    __syncthreads();
    if (lane == 0) parts[warp] = total;
    __syncthreads();
    if (warp == 0) {
      total = lane < static_cast<int>(blockDim.x / kWarp) ? parts[lane] : R::template start<T>();
      total = join_warp<R>(total);
      if (lane == 0) target.write(result, split, results, total);
    }
  }
}

// One warp per result, for results with few elements and one part.
template <class R, class T>
__global__ void reduce_short_rows(const __grid_constant__ ReducePlan plan, const T* centers,
                                  const __grid_constant__ ReduceTarget<T> target) {
  const int64_t results = plan.kept.total(),
                n = plan.reduced.total() / (plan.packs ? kReducePack<T> : 1);
  const int lane = threadIdx.x % kWarp;
  for (int64_t result = global_index() / kWarp; result < results; result += grid_stride() / kWarp) {
    int64_t base[1];
    plan.kept.offsets(result, base);
    const T center = centers ? centers[result] : T(0);
    T total = plan.packs ? reduce_packs<R>(plan, base[0], lane, n, kWarp, center)
                         : reduce_elements<R>(plan, base[0], lane, n, kWarp, center);
    total = join_warp<R>(total);
    if (lane == 0) target.write(result, 0, results, total);
  }
}

// A warp reads elements of neighboring results; the block's warps divide the reduced elements.
template <class R, class T>
__global__ void reduce_columns(const __grid_constant__ ReducePlan plan, const T* centers,
                               const __grid_constant__ ReduceTarget<T> target) {
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
      target.write(result, split, results, total);
    }
  }
}

// Like the kernel above in packs: a lane computes as many neighboring results as a pack has
// elements.
template <class R, class T>
__global__ void reduce_column_packs(const __grid_constant__ ReducePlan plan, const T* centers,
                                    const __grid_constant__ ReduceTarget<T> target) {
  constexpr int V = kReducePack<T>, kLines = kThreads / kWarp;
  __shared__ T parts[kLines][kWarp];
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  const int64_t tiles = (results + kWarp * V - 1) / (kWarp * V);
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t task = blockIdx.x; task < tiles * plan.splits; task += gridDim.x) {
    const int64_t result = (task % tiles * kWarp + lane) * V, split = task / tiles;
    const int64_t end = n * (split + 1) / plan.splits;
    T total[V], center[V];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      total[k] = R::template start<T>();
      center[k] = centers && result < results ? centers[result + k] : T(0);
    }
    if (result < results) {
      int64_t base[1], at[1];
      plan.kept.offsets(result, base);
      for_packed_dtype<T>(plan.dtype, [&]<class E>(E) {
        for (int64_t i = n * split / plan.splits + line; i < end; i += kLines) {
          T v[V];
          plan.reduced.offsets(i, at);
          load_pack<E>(plan.data, base[0] + at[0], v);
#pragma unroll
          for (int k = 0; k < V; ++k) total[k] = R::step(total[k], v[k], center[k]);
        }
      });
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      __syncthreads();
      parts[line][lane] = total[k];
      __syncthreads();
      if (line == 0 && result < results) {
        for (int other = 1; other < kLines; ++other)
          total[k] = R::join(total[k], parts[other][lane]);
        target.write(result + k, split, results, total[k]);
      }
    }
  }
}

// A block joins the partial values of 32 results. Each warp joins some of the values of all 32
// results, so that its loads are adjacent.
template <class R, class T>
__global__ void join_splits(int64_t results, int64_t splits, const T* partial,
                            const __grid_constant__ ReduceTarget<T> target) {
  using W = Wide<T>;
  constexpr int kLines = kThreads / kWarp;
  __shared__ W parts[kLines][kWarp];
  const int lane = threadIdx.x % kWarp, line = threadIdx.x / kWarp;
  for (int64_t tile = blockIdx.x; tile * kWarp < results; tile += gridDim.x) {
    const int64_t i = tile * kWarp + lane;
    W total = R::template start<W>();
    if (i < results) {
#pragma unroll 4
      for (int64_t s = line; s < splits; s += kLines)
        total = R::join(total, static_cast<W>(partial[s * results + i]));
    }
    __syncthreads();
    parts[line][lane] = total;
    __syncthreads();
    if (line > 0 || i >= results) continue;
    for (int other = 1; other < kLines; ++other) total = R::join(total, parts[other][lane]);
    target.write_result(i, total);
  }
}

template <class T>
size_t partial_count(const ReducePlan& plan) {
  return static_cast<size_t>(plan.splits * plan.kept.total());
}

template <class R, class T>
void launch_reduction(KernelContext& ctx, const ReducePlan& plan, const T* centers,
                      const ReduceTarget<T>& target) {
  constexpr int64_t kShort = 1024;  // elements that a warp reduces alone
  const int64_t results = plan.kept.total(), n = plan.reduced.total();
  const int64_t tile = plan.packs ? kWarp * kReducePack<T> : kWarp;
  const int64_t tasks = plan.splits * (plan.columns ? (results + tile - 1) / tile : results);
  if (plan.columns && plan.packs) {
    launch(ctx, reduce_column_packs<R, T>, blocks_per_task(ctx, tasks), kThreads, plan, centers,
           target);
  } else if (plan.columns) {
    launch(ctx, reduce_columns<R, T>, blocks_per_task(ctx, tasks), kThreads, plan, centers, target);
  } else if (plan.splits == 1 && n <= kShort) {
    launch(ctx, reduce_short_rows<R, T>, blocks_for(results * kWarp, ctx), kThreads, plan, centers,
           target);
  } else {
    launch(ctx, reduce_rows<R, T>, blocks_per_task(ctx, tasks), kThreads, plan, centers, target);
  }
}

// Writes partial_count values, one for each part of each result, part by part.
template <class R, class T>
void reduce_parts(KernelContext& ctx, const ReducePlan& plan, const T* centers, T* partial) {
  launch_reduction<R>(ctx, plan, centers, ReduceTarget<T>{.partial = partial});
}

// out = finish(reduction). `partial` has room for partial_count values. If `centers_out` also
// receives the result, `out` may have no data.
template <class R, class T>
void reduce(KernelContext& ctx, const ReducePlan& plan, const T* centers, T* partial,
            const Finish& finish, const TensorRef& out, T* centers_out = nullptr) {
  const int64_t results = plan.kept.total();
  const ReduceTarget<T> target{nullptr,   finish,      out.data,
                               out.dtype, centers_out, finish.by_center ? centers : nullptr};
  if (plan.splits == 1) return launch_reduction<R>(ctx, plan, centers, target);
  reduce_parts<R>(ctx, plan, centers, partial);
  launch(ctx, join_splits<R, T>, blocks_per_task(ctx, (results + kWarp - 1) / kWarp), kThreads,
         results, plan.splits, partial, target);
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

template <class R, class P = ReduceParams>
void plain_reduction(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p, in[0].shape.ndim());
  run_reduction<R>(ctx, mask, in[0], out[0], {});
}

}  // namespace mxlite::cuda
