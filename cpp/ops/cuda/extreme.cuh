// The first largest (or smallest) element of a sequence. NaN takes precedence over all numbers.
#pragma once
#include <limits>
#include <type_traits>

#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

template <class C, bool smallest = false, class Index = int64_t>
struct Extreme {
  static __device__ __forceinline__ C worst() {
    using Limits = std::numeric_limits<C>;
    if constexpr (std::is_integral_v<C>)
      return smallest ? Limits::max() : Limits::lowest();
    else
      return smallest ? Limits::infinity() : -Limits::infinity();
  }
  C value = worst();
  Index at = -1;

  static __device__ __forceinline__ bool beats(C a, C b) { return smallest ? a < b : a > b; }
  // Takes the next element; elements must come in the order of i.
  __device__ __forceinline__ void take(C v, Index i) {
    if (beats(v, value) || (at < 0 && v == value) || (v != v && value == value)) {
      value = v;
      at = i;
    }
  }
  // Merges with the extreme of other elements.
  __device__ __forceinline__ void join(C v, Index i) {
    if (i < 0) return;
    const bool nan = v != v, own_nan = value != value;
    const bool better = at < 0 || (nan && !own_nan) || (!nan && !own_nan && beats(v, value));
    const bool same = nan == own_nan && (nan || v == value);
    if (better || (same && i < at)) {
      value = v;
      at = i;
    }
  }
  __device__ __forceinline__ void join_warp() {
#pragma unroll
    for (int d = kWarp / 2; d > 0; d /= 2) {
      const C v = __shfl_xor_sync(0xffffffffu, value, d);
      join(v, __shfl_xor_sync(0xffffffffu, at, d));
    }
  }
  // Merges the extremes of the block's threads. Thread 0 gets the result.
  __device__ __forceinline__ void join_block() {
    __shared__ C values[kWarp];
    __shared__ Index places[kWarp];
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    join_warp();
    __syncthreads();
    if (lane == 0) {
      values[warp] = value;
      places[warp] = at;
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int w = 1; w < static_cast<int>(blockDim.x / kWarp); ++w) join(values[w], places[w]);
  }
};

}  // namespace mxlite::cuda
