// Ranks boxes: keys of scores, and sorting by many blocks.
#pragma once
#include "cpp/ops/cuda/block_list.cuh"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

inline int64_t power_of_two_from(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

struct alignas(16) Ranked {
  uint64_t key;
  int64_t index;
  __device__ bool operator<(const Ranked& o) const {
    return key != o.key ? key < o.key : index < o.index;
  }
};
inline constexpr uint64_t kLastKey = ~uint64_t{0};

// Returns a key with the order of the numbers: NaN is the largest, -0 equals 0.
__device__ inline uint64_t rising_key(double v) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if (v != v) return kLastKey;
  const auto bits = static_cast<uint64_t>(__double_as_longlong(v + 0.0));
  return bits & kSign ? ~bits : bits ^ kSign;
}
// Returns a key that sorts the largest number first and NaN last.
__device__ inline uint64_t falling_key(double v) { return v != v ? kLastKey : ~rising_key(v); }

// Sorts each of `lists` adjacent lists of `padded` entries, a power of two.
void sort_ranked_lists(KernelContext& ctx, Ranked* entries, int64_t lists, int64_t padded);

template <class C>
struct RankedBox {
  C left, top, right, bottom, area;
  int32_t group;  // only boxes of one group are compared
};

// Returns the length of the intersection of two intervals.
template <class C>
__device__ __forceinline__ C common_length(C a_low, C a_high, C b_low, C b_high) {
  const C low = a_low > b_low ? a_low : b_low, high = a_high < b_high ? a_high : b_high;
  return high - low > C(0) ? high - low : C(0);
}

}  // namespace mxlite::cuda
