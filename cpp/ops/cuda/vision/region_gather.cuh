// Gradients of images from which regions were pooled. A block processes a tile of pixels and a few
// channels: it lists the regions that touch the tile, and each thread adds their gradients to its
// pixel. Regions are added in order, without atomics, so that every run gives the same sums.
#pragma once
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

// Pixels [top, bottom) and [left, right).
struct Rectangle {
  int64_t top, bottom, left, right;
  __device__ bool meets(const Rectangle& o) const {
    return top < o.bottom && o.top < bottom && left < o.right && o.left < right;
  }
};

inline constexpr int64_t kGatherColumns = kWarp, kGatherRows = kThreads / kWarp;

// Gradient of an image array, and the number of items (regions, or bins of regions) that are added
// to it.
struct GatherTarget {
  void* out;
  DType dtype;
  int64_t batch, channels, height, width, items;
};
struct Pixel {
  int64_t image, row, column;
};

// Appends the entries of all threads with has_one to the list, in thread order. Returns the number
// of these threads.
template <class Entry>
__device__ int list_entries(bool has_one, const Entry& entry, Entry* list) {
  __shared__ int counts[kThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const unsigned bits = __ballot_sync(0xffffffffu, has_one);
  if (lane == 0) counts[warp] = __popc(bits);
  __syncthreads();  // also ensures that all threads have read the previous list
  int place = __popc(bits & ((1u << lane) - 1)), total = 0;
  for (int w = 0; w < kThreads / kWarp; ++w) {
    if (w < warp) place += counts[w];
    total += counts[w];
  }
  if (has_one) list[place] = entry;
  __syncthreads();
  return total;
}

// G defines what is added: Entry, C, kChannels (channels per block); touches(item, image, first
// channel, tile, entry): whether the item may reach the tile, and its entry; add(entry, first
// channel, number of channels, pixel, sums): adds to the sums of a pixel.
template <class G>
__global__ void __launch_bounds__(kThreads)
    gather_regions(int64_t tasks, const __grid_constant__ GatherTarget t,
                   const __grid_constant__ G g) {
  using C = typename G::C;
  using Entry = typename G::Entry;
  __shared__ Entry list[kThreads];
  const int64_t across = (t.width + kGatherColumns - 1) / kGatherColumns;
  const int64_t down = (t.height + kGatherRows - 1) / kGatherRows;
  const int64_t chunks = (t.channels + G::kChannels - 1) / G::kChannels;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t left = task % across * kGatherColumns, top = task / across % down * kGatherRows;
    const int64_t rest = task / across / down, channel = rest % chunks * G::kChannels;
    const Pixel pixel{rest / chunks, top + threadIdx.x / kWarp, left + threadIdx.x % kWarp};
    const Rectangle tile{top, top + kGatherRows, left, left + kGatherColumns};
    const bool inside = pixel.row < t.height && pixel.column < t.width;
    const int num_channels =
        static_cast<int>(t.channels - channel < G::kChannels ? t.channels - channel : G::kChannels);
    C sums[G::kChannels] = {};
    for (int64_t first = 0; first < t.items; first += kThreads) {
      const int64_t item = first + threadIdx.x;
      Entry entry{};
      const bool touches = item < t.items && g.touches(item, pixel.image, channel, tile, entry);
      const int count = list_entries(touches, entry, list);
      for (int i = 0; inside && i < count; ++i) g.add(list[i], channel, num_channels, pixel, sums);
    }
    if (!inside) continue;
#pragma unroll
    for (int c = 0; c < G::kChannels; ++c) {
      if (c >= num_channels) break;
      const int64_t plane = pixel.image * t.channels + channel + c;
      store_as<C>(t.out, t.dtype, (plane * t.height + pixel.row) * t.width + pixel.column, sums[c]);
    }
  }
}

template <class G>
void launch_gather(KernelContext& ctx, const GatherTarget& t, const G& g) {
  const int64_t across = (t.width + kGatherColumns - 1) / kGatherColumns;
  const int64_t down = (t.height + kGatherRows - 1) / kGatherRows;
  const int64_t chunks = (t.channels + G::kChannels - 1) / G::kChannels;
  const int64_t tasks = t.batch * chunks * down * across;
  if (tasks > 0) launch(ctx, gather_regions<G>, blocks_per_task(ctx, tasks), kThreads, tasks, t, g);
}

// Returns the bins [first, past), each of `size` pixels from `start` on, that may contain the
// points [low, high].
template <class C>
__device__ void bins_around(C start, C size, C low, C high, int64_t bins, int64_t& first,
                            int64_t& past) {
  first = mxlite::cpu::clamp_index(std::floor((low - start) / size) - C(1), int64_t{0}, bins);
  past = mxlite::cpu::clamp_index(std::ceil((high - start) / size) + C(1), first, bins);
}

}  // namespace mxlite::cuda
