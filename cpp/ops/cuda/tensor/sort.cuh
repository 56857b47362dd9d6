// Sorting of an array's rows: code shared by the operators sort, argsort and topk.
#pragma once
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/tensor/sort.h"

namespace mxlite::cuda {

// Converts values to keys of the same order: NaN is largest, -0 equals 0.
template <class T>
__device__ __forceinline__ uint64_t order_key(T value) {
  if constexpr (std::is_same_v<T, double>) {
    if (value != value) return ~uint64_t{0};
    const auto bits = static_cast<uint64_t>(__double_as_longlong(value + 0));
    return bits ^ (bits >> 63 ? ~uint64_t{0} : uint64_t{1} << 63);
  } else if constexpr (std::is_same_v<T, float>) {
    if (value != value) return 0xffffffffu;
    const uint32_t bits = __float_as_uint(value + 0);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
  } else if constexpr (sizeof(T) == 8) {
    return std::is_signed_v<T> ? static_cast<uint64_t>(value) ^ uint64_t { 1 } << 63
                               : static_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint32_t>(static_cast<int32_t>(value)) ^ 0x80000000u;
  } else {
    return static_cast<uint32_t>(value);
  }
}

// Entry e is element e % length of row e / length, where rows are numbered over (outer, inner).
__device__ __forceinline__ int64_t element_of(const SortView& v, int64_t row, int64_t i,
                                              int64_t length) {
  return (row / v.inner * length + i) * v.inner + row % v.inner;
}

// Destinations for the first k elements of each sorted row; null if not requested.
struct SortResults {
  SortView v;
  int64_t k;
  void* value = nullptr;  // (outer, k, inner)
  void* indices = nullptr;
  DType indices_dtype = DType::kFloat32;
  void* mask = nullptr;  // data's shape, 1 at the first k elements
};

// Ties keep the order of indices.
void sort_rows(KernelContext& ctx, const TensorRef& data, bool ascend, const SortResults& results);

// Returns the bits of the number 1 in the dtype.
uint64_t bits_of_one(DType dtype);

}  // namespace mxlite::cuda
