// Launches kernels through one function, and provides code that kernels share: sums within a block.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "cpp/core/cuda/launch.h"
#include "cpp/ops/cuda/launch.cuh"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::cuda {

inline constexpr int kWarp = 32;

// Returns the number of blocks if each task is the work of a block; kernels loop with stride
// gridDim.x.
inline unsigned blocks_per_task(const KernelContext& ctx, int64_t tasks) {
  return blocks_for(tasks * kThreads, ctx);
}

// Shared memory whose size is given at launch. The GPU emulation of the tests has another
// definition.
#ifndef MX_DYNAMIC_SHARED
#define MX_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

// Launches fn<<<blocks, threads, shared_bytes>>>(args...) on the call's stream.
template <class... Params, class... Args>
void launch_shared(KernelContext& ctx, void (*fn)(Params...), unsigned blocks, unsigned threads,
                   size_t shared_bytes, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream(ctx);
  launch_kernel(config, fn, std::forward<Args>(args)...);
}
template <class... Params, class... Args>
void launch(KernelContext& ctx, void (*fn)(Params...), unsigned blocks, unsigned threads,
            Args&&... args) {
  launch_shared(ctx, fn, blocks, threads, 0, std::forward<Args>(args)...);
}
// Runs one thread per item; threads stride over the grid.
template <class... Params, class... Args>
void launch_items(KernelContext& ctx, void (*fn)(Params...), int64_t items, Args&&... args) {
  if (items > 0) launch(ctx, fn, blocks_for(items, ctx), kThreads, std::forward<Args>(args)...);
}

template <class T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}
template <class T>
__device__ __forceinline__ T warp_max(T v) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, v, step);
    v = other > v ? other : v;
  }
  return v;
}

// Returns to all threads whether the block is the last one of `blocks` to call this function with
// the counter. The last one sees what the others have stored before, and sets the counter to 0.
__device__ __forceinline__ bool is_last_block(unsigned* arrived, unsigned blocks) {
  __shared__ bool is_last;
  __syncthreads();  // until all threads have stored, and have read the result of the previous call
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(arrived, 1u) == blocks - 1;
    if (is_last) *arrived = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// Returns the sum over a block of up to 1024 threads (whole warps). Every thread gets the result.
template <class T>
__device__ __forceinline__ T block_sum(T v) {
  __shared__ T parts[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  v = warp_sum(v);
  __syncthreads();  // until all threads have read the partial sums of the previous call
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  return warp_sum(lane < static_cast<int>(blockDim.x / kWarp) ? parts[lane] : T(0));
}
template <class T>
__device__ __forceinline__ T block_max(T v, T lowest) {
  __shared__ T parts[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  v = warp_max(v);
  __syncthreads();
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  return warp_max(lane < static_cast<int>(blockDim.x / kWarp) ? parts[lane] : lowest);
}

}  // namespace mxlite::cuda
