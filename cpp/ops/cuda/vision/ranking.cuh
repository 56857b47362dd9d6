// Sorting, suppression and matching of boxes by one block per image, in global memory.
#pragma once
#include "cpp/ops/cuda/block_list.cuh"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

// Blocks of a launch that takes one image after the other; each has scratch memory of its own.
inline constexpr int64_t kMostImageBlocks = 64;

inline int64_t power_of_two_from(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

struct Ranked {
  uint64_t key;
  int64_t index;
  __device__ bool operator<(const Ranked& o) const {
    return key != o.key ? key < o.key : index < o.index;
  }
};
inline constexpr uint64_t kLastKey = ~uint64_t{0};

// Keys of the order of numbers: NaN is the largest, -0 equals 0.
__device__ inline uint64_t rising_key(double v) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if (v != v) return kLastKey;
  const auto bits = static_cast<uint64_t>(__double_as_longlong(v + 0.0));
  return bits & kSign ? ~bits : bits ^ kSign;
}
// Largest number first, NaN after everything.
__device__ inline uint64_t falling_key(double v) { return v != v ? kLastKey : ~rising_key(v); }

// Run by the whole block; `padded` is a power of two.
__device__ inline void sort_ranked(Ranked* entries, int64_t padded) {
  for (int64_t size = 2; size <= padded; size *= 2)
    for (int64_t step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
        const int64_t other = i ^ step;
        if (other < i) continue;
        const Ranked a = entries[i], b = entries[other];
        if ((b < a) == ((i & size) == 0)) {
          entries[i] = b;
          entries[other] = a;
        }
      }
    }
  __syncthreads();
}

template <class C>
struct RankedBox {
  C left, top, right, bottom, area;
  int64_t group;  // only boxes of one group are compared
};

// Greedy: boxes come best first, each drops the later ones of its group with rule(kept, later).
template <class C, class Rule>
__device__ void suppress(const RankedBox<C>* boxes, uint8_t* dropped, int64_t count, Rule rule) {
  for (int64_t i = 0; i + 1 < count; ++i) {
    __syncthreads();
    if (dropped[i]) continue;  // the same for all threads
    const RankedBox<C> kept = boxes[i];
    for (int64_t j = i + 1 + threadIdx.x; j < count; j += blockDim.x)
      if (!dropped[j] && boxes[j].group == kept.group && rule(kept, boxes[j])) dropped[j] = 1;
  }
  __syncthreads();
}

// fn(i, place) for each i that is not dropped, place counting them; returns how many. All threads
// of a block of kThreads.
template <class Fn>
__device__ int64_t for_kept(const uint8_t* dropped, int64_t count, Fn&& fn) {
  const int64_t total = list_kept(
      count, [&](int64_t i) { return !dropped[i]; }, fn);
  __syncthreads();  // all have been called
  return total;
}

// One length of the interval that two have in common.
template <class C>
__device__ __forceinline__ C common_length(C a_low, C a_high, C b_low, C b_high) {
  const C low = a_low > b_low ? a_low : b_low, high = a_high < b_high ? a_high : b_high;
  return high - low > C(0) ? high - low : C(0);
}

}  // namespace mxlite::cuda
