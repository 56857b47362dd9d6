// Ordered lists that the threads of one block write together.
#pragma once
#include "cpp/ops/cuda/block_scan.cuh"

namespace mxlite::cuda {

// Returns the sum of `own` over the block's preceding threads. `total` becomes the sum over all
// threads.
__device__ inline int64_t block_start(int64_t own, int64_t& total) {
  return block_running_sum(own, total) - own;
}

// Calls put(i, position) in order for each i of 0 .. count - 1 with kept(i), and returns the number
// of these calls. Must be called by all threads of a block of kThreads.
template <class Kept, class Put>
__device__ int64_t list_kept(int64_t count, Kept&& kept, Put&& put) {
  const int64_t part = (count + kThreads - 1) / kThreads;
  const int64_t begin = part * threadIdx.x;
  const int64_t end = begin + part < count ? begin + part : count;
  int64_t own = 0, total = 0;
  for (int64_t i = begin; i < end; ++i) own += kept(i) ? 1 : 0;
  int64_t place = block_start(own, total);
  for (int64_t i = begin; i < end; ++i)
    if (kept(i)) put(i, place++);
  return total;
}

}  // namespace mxlite::cuda
