// What kernels on sparse arrays share: runs of equal rows, lookups, lists of what is kept.
#pragma once
#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

// fn(C{}) with the type that sums of the dtype are made in.
template <class F>
void dispatch_row_sum(DType dtype, F&& fn) {
  if (dtype == DType::kFloat64)
    fn(double{});
  else if (is_floating(dtype))
    fn(float{});
  else if (dtype == DType::kUInt64)
    fn(uint64_t{});
  else
    fn(int64_t{});
}

// Does a run of rows below num_rows begin at i? (The others come last.)
__device__ __forceinline__ bool begins_run(const RowOrder& s, int64_t i, int64_t num_rows) {
  const int64_t row = s.row[i];
  return row >= 0 && row < num_rows && (i == 0 || s.row[i - 1] != row);
}
// Column `column` of the sum of the run's source rows of `width` elements.
template <class C>
__device__ __forceinline__ C sum_run(const RowOrder& s, int64_t first, const void* values,
                                     DType dtype, int64_t width, int64_t column) {
  const int64_t row = s.row[first];
  C sum = C(0);
  for (int64_t i = first; i < s.count && s.row[i] == row; ++i)
    sum += load_as<C>(values, dtype, s.position[i] * width + column);
  return sum;
}
// Threads of a block whose threads share the columns of a run.
inline unsigned threads_for_columns(int64_t width) {
  const int64_t warps = (width + kWarp - 1) / kWarp;
  return static_cast<unsigned>(std::clamp<int64_t>(warps * kWarp, kWarp, kThreads));
}

// Place of `row` in a rising list, or -1.
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

// The sum of `own` over the threads before this one, and over all, in a block of kThreads.
__device__ inline int64_t block_start(int64_t own, int64_t& total) {
  __shared__ int64_t starts[kThreads + 1];
  __syncthreads();  // the last call's have been read
  starts[threadIdx.x + 1] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    starts[0] = 0;
    for (int t = 0; t < kThreads; ++t) starts[t + 1] += starts[t];
  }
  __syncthreads();
  total = starts[kThreads];
  return starts[threadIdx.x];
}

// By one block of kThreads: kept(i) of 0 .. count - 1 are counted, and put(i, place) is called for
// each in order. Returns how many.
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
