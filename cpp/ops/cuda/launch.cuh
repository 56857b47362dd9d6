// Launches of one-dimensional kernels.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpp/ops/cuda/context.h"

namespace mxlite::cuda {

inline constexpr int kThreads = 256;  // full occupancy on every architecture since 7.0

// Returns enough blocks for n items, but at most a few waves; kernels loop with stride
// grid_stride().
inline unsigned blocks_for(int64_t n, const KernelContext& ctx) {
  constexpr int64_t kBlocksPerMultiprocessor = 16;
  const int64_t most = multiprocessors(ctx) * kBlocksPerMultiprocessor;
  return static_cast<unsigned>(std::clamp<int64_t>((n + kThreads - 1) / kThreads, 1, most));
}

__device__ inline int64_t global_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace mxlite::cuda
