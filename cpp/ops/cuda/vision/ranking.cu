// Bitonic sort of many lists by many blocks. If compared entries lie in the same part of a list,
// they are compared in shared memory, otherwise in global memory. Equal keys are ordered by index,
// so results are the same in every run.
#include "cpp/ops/cuda/vision/ranking.cuh"

namespace mxlite::cuda {
namespace {

constexpr int64_t kMostInPart = 2048;  // 32 KiB of shared memory

__device__ void put_in_order(Ranked& low, Ranked& high, bool rising) {
  if ((high < low) != rising) return;
  const Ranked kept = low;
  low = high;
  high = kept;
}

// Returns the index of the first entry of pair i, whose entries are `step` apart.
__device__ int64_t lower_of_pair(int64_t i, int64_t step) { return 2 * i - (i & (step - 1)); }

// Returns whether the run of `size` entries that contains this entry is ascending. The complete
// list is ascending.
__device__ bool is_rising(int64_t entry, int64_t size, int64_t padded) {
  return (entry & (padded - 1) & size) == 0;
}

// Merges into sorted runs of first_size, 2 * first_size, ..., last_size entries. Performs only
// comparisons of entries in the same part.
__global__ void __launch_bounds__(kThreads)
    sort_parts(int64_t parts, int64_t part, int64_t padded, int64_t first_size, int64_t last_size,
               Ranked* entries) {
  __shared__ Ranked own[kMostInPart];
  for (int64_t p = blockIdx.x; p < parts; p += gridDim.x) {
    const int64_t first = p * part;
    for (int64_t i = threadIdx.x; i < part; i += blockDim.x) own[i] = entries[first + i];
    for (int64_t size = first_size; size <= last_size; size *= 2)
      for (int64_t step = (size < part ? size : part) / 2; step > 0; step /= 2) {
        __syncthreads();
        for (int64_t i = threadIdx.x; i < part / 2; i += blockDim.x) {
          const int64_t at = lower_of_pair(i, step);
          put_in_order(own[at], own[at + step], is_rising(first + at, size, padded));
        }
      }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < part; i += blockDim.x) entries[first + i] = own[i];
    __syncthreads();  // before the next part is read
  }
}

__global__ void compare_far(int64_t pairs, int64_t padded, int64_t size, int64_t step,
                            Ranked* entries) {
  for (int64_t i = global_index(); i < pairs; i += grid_stride()) {
    const int64_t at = lower_of_pair(i, step);
    put_in_order(entries[at], entries[at + step], is_rising(at, size, padded));
  }
}

}  // namespace

void sort_ranked_lists(KernelContext& ctx, Ranked* entries, int64_t lists, int64_t padded) {
  if (padded < 2 || lists == 0) return;
  const int64_t part = std::min(padded, kMostInPart), parts = lists * (padded / part);
  const int64_t pairs = lists * (padded / 2);
  const auto sort = [&](int64_t first_size, int64_t last_size) {
    launch(ctx, sort_parts, blocks_per_task(ctx, parts), kThreads, parts, part, padded, first_size,
           last_size, entries);
  };
  sort(2, part);
  for (int64_t size = 2 * part; size <= padded; size *= 2) {
    for (int64_t step = size / 2; step >= part; step /= 2)
      launch_items(ctx, compare_far, pairs, pairs, padded, size, step, entries);
    sort(size, size);
  }
}

}  // namespace mxlite::cuda
