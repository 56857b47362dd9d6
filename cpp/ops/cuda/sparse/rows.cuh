// Code shared by kernels on sparse arrays: runs of equal rows, and look-ups.
#pragma once
#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/block_list.cuh"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

// Returns whether a run of rows below num_rows begins at i. All other rows come last.
__device__ __forceinline__ bool begins_run(const RowOrder& s, int64_t i, int64_t num_rows) {
  const int64_t row = s.row[i];
  return row >= 0 && row < num_rows && (i == 0 || s.row[i - 1] != row);
}
// Returns column `column` of the sum of the run's source rows, which have `width` elements.
template <class C>
__device__ __forceinline__ C sum_run(const RowOrder& s, int64_t first, const void* values,
                                     DType dtype, int64_t width, int64_t column) {
  const int64_t row = s.row[first];
  C sum = C(0);
  for (int64_t i = first; i < s.count && s.row[i] == row; ++i)
    sum += load_as<C>(values, dtype, s.position[i] * width + column);
  return sum;
}
// Returns the number of threads of a block that share the columns of a run.
inline unsigned threads_for_columns(int64_t width) {
  const int64_t warps = (width + kWarp - 1) / kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(warps * kWarp, kWarp, kThreads));
}

// Returns the position of `row` in an ascending list, or -1.
__device__ __forceinline__ int64_t find_row(const int64_t* list, int64_t count, int64_t row) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (list[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && list[low] == row ? low : -1;
}

}  // namespace mxlite::cuda
