// Prefix sums within a block.
#pragma once
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

// Returns the sum of v over the lanes up to and including this one.
template <class T>
__device__ __forceinline__ T warp_running_sum(T v) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const T before = __shfl_sync(0xffffffffu, v, lane < step ? lane : lane - step);
    if (lane >= step) v += before;
  }
  return v;
}

// Returns the sum of v over the threads up to and including this one. `total` becomes the sum over
// all threads. A block has up to 1024 threads (whole warps).
template <class T>
__device__ __forceinline__ T block_running_sum(T v, T& total) {
  __shared__ T parts[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  v = warp_running_sum(v);
  __syncthreads();  // until all threads have read the partial sums of the previous call
  if (lane == kWarp - 1) parts[warp] = v;
  __syncthreads();
  const T sums = warp_running_sum(lane < static_cast<int>(blockDim.x / kWarp) ? parts[lane] : T(0));
  total = __shfl_sync(0xffffffffu, sums, kWarp - 1);
  const T before = __shfl_sync(0xffffffffu, sums, warp > 0 ? warp - 1 : 0);
  return warp > 0 ? before + v : v;
}

}  // namespace mxlite::cuda
