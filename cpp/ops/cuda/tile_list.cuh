// Ordered lists that many blocks write together: each block counts the elements that it keeps of a
// tile, one block adds the counts, and each block writes its tile's part of the list.
#pragma once
#include "cpp/ops/cuda/block_list.cuh"

namespace mxlite::cuda {

inline constexpr int64_t kListTile = 4096;

inline int64_t list_tiles(int64_t count) { return (count + kListTile - 1) / kListTile; }
// Returns the bytes of scratch memory that write_list needs.
inline size_t list_bytes(int64_t count) {
  return static_cast<size_t>(list_tiles(count) + 1) * sizeof(int64_t);
}

template <class List>
__global__ void __launch_bounds__(kThreads)
    count_tiles(int64_t count, const __grid_constant__ List list, int64_t* counts) {
  const int64_t tiles = (count + kListTile - 1) / kListTile;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t begin = tile * kListTile;
    const int64_t end = begin + kListTile < count ? begin + kListTile : count;
    int own = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) own += list.keeps(i) ? 1 : 0;
    const int kept = block_sum(own);
    if (threadIdx.x == 0) counts[tile] = kept;
  }
}

// Run by one block: replaces counts by their exclusive prefix sums, and sets counts[tiles] to the
// sum.
__global__ inline void __launch_bounds__(kThreads) start_tiles(int64_t tiles, int64_t* counts) {
  const int64_t part = (tiles + kThreads - 1) / kThreads, begin = part * threadIdx.x;
  const int64_t end = begin + part < tiles ? begin + part : tiles;
  int64_t own = 0, total = 0;
  for (int64_t i = begin; i < end; ++i) own += counts[i];
  int64_t start = block_start(own, total);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t kept = counts[i];
    counts[i] = start;
    start += kept;
  }
  if (threadIdx.x == 0) counts[tiles] = total;
}

template <class List>
__global__ void __launch_bounds__(kThreads)
    write_tiles(int64_t count, const __grid_constant__ List list, const int64_t* starts,
                int64_t* out) {
  const int64_t tiles = (count + kListTile - 1) / kListTile, total = starts[tiles];
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t begin = tile * kListTile;
    const int64_t size = count - begin < kListTile ? count - begin : kListTile;
    list_kept(
        size, [&](int64_t i) { return list.keeps(begin + i); },
        [&](int64_t i, int64_t place) { out[starts[tile] + place] = list.value(begin + i); });
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
      if (begin + i >= total) out[begin + i] = 0;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) out[count] = total;
}

// Writes value(i) of every i below `count` with keeps(i), in order, followed by zeros. out[count]
// becomes the length of the list.
template <class List>
void write_list(KernelContext& ctx, int64_t count, const List& list, void* scratch, int64_t* out) {
  auto* const starts = static_cast<int64_t*>(scratch);
  const int64_t tiles = list_tiles(count);
  if (tiles > 0)
    launch(ctx, count_tiles<List>, blocks_per_task(ctx, tiles), kThreads, count, list, starts);
  launch(ctx, start_tiles, 1, kThreads, tiles, starts);
  launch(ctx, write_tiles<List>, blocks_per_task(ctx, tiles), kThreads, count, list, starts, out);
}

}  // namespace mxlite::cuda
