// Sums ordered sources in chunks, so that several blocks share a row with many sources (for example
// a token type or the padding index). A run of equal rows inside one chunk gives a result. A run
// that spans chunks gives a partial sum in each chunk, and a second kernel adds these sums.
#pragma once
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/row_sums.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {

constexpr int64_t kMinChunk = 64;                      // minimum number of sources per chunk
constexpr int64_t kMostPartBytes = int64_t{64} << 20;  // unless a single chunk needs more

// Returns the number of sources per chunk: as few as the memory for partial sums allows.
inline int64_t sources_per_chunk(const RowAccumulation& a) {
  const int64_t bytes_per_chunk = 2 * a.outer * a.inner * static_cast<int64_t>(sizeof(double));
  const int64_t most = std::max<int64_t>(kMostPartBytes / std::max<int64_t>(bytes_per_chunk, 1), 1);
  return std::max(kMinChunk, (a.count + most - 1) / most);
}
inline int64_t chunks_of(const RowAccumulation& a) {
  const int64_t chunk = sources_per_chunk(a);
  return (a.count + chunk - 1) / chunk;
}

// The position of element k of a row of dst or src: its outer and its inner index.
struct Column {
  int64_t outer, inner;
  __device__ __forceinline__ Column(const RowAccumulation& a, int64_t k)
      : outer(k / a.inner), inner(k - outer * a.inner) {}
};

template <class C>
__device__ __forceinline__ void store_sum(const RowAccumulation& a, const Column& at, int64_t row,
                                          void* dst, C sum) {
  if (row >= 0 && row < a.num_rows)
    store_as<C>(dst, a.dtype, (at.outer * a.outer_step + row) * a.inner + at.inner, sum);
}

// source.template load<C>(a, position, column) returns an element of a source. `parts` (chunks, 2,
// columns) receives the sum of a run that began in an earlier chunk, and the sum of a run that
// begins in this chunk and continues in the next chunk.
template <class C, class Source>
__global__ void __launch_bounds__(kThreads)
    sum_chunks(const __grid_constant__ RowOrder order, const __grid_constant__ RowAccumulation a,
               const __grid_constant__ Source source, int64_t size, int64_t chunks, int64_t tiles,
               void* dst, C* parts) {
  const int64_t columns = a.outer * a.inner;
  for (int64_t task = blockIdx.x; task < chunks * tiles; task += gridDim.x) {
    const int64_t chunk = task / tiles, k = task % tiles * blockDim.x + threadIdx.x;
    if (k >= columns) continue;
    const Column at(a, k);
    const int64_t first = chunk * size;
    const int64_t end = first + size < order.count ? first + size : order.count;
    int64_t begin = first;  // the first source of the run
    C sum = C(0);
    for (int64_t i = first; i < end; ++i) {
      sum += source.template load<C>(a, order.position[i], at);
      const int64_t row = order.row[i];
      if (i + 1 < end && order.row[i + 1] == row) continue;
      if (begin == first && first > 0 && order.row[first - 1] == row)
        parts[chunk * 2 * columns + k] = sum;
      else if (i + 1 == end && end < order.count && order.row[end] == row)
        parts[(chunk * 2 + 1) * columns + k] = sum;
      else
        store_sum(a, at, row, dst, sum);
      sum = C(0);
      begin = i + 1;
    }
  }
}

// Each task adds the partial sums of the run that begins in its chunk and continues in later
// chunks, if there is such a run.
template <class C>
__global__ void __launch_bounds__(kThreads)
    join_chunks(const __grid_constant__ RowOrder order, const __grid_constant__ RowAccumulation a,
                int64_t size, int64_t chunks, int64_t tiles, const C* parts, void* dst) {
  const int64_t columns = a.outer * a.inner;
  for (int64_t task = blockIdx.x; task < (chunks - 1) * tiles; task += gridDim.x) {
    const int64_t chunk = task / tiles, k = task % tiles * blockDim.x + threadIdx.x;
    const int64_t first = chunk * size, end = first + size;
    const int64_t row = order.row[end - 1];
    const bool continues = order.row[end] == row;
    const bool began_before = first > 0 && order.row[first - 1] == row;
    if (!continues || began_before || k >= columns) continue;
    C sum = parts[(chunk * 2 + 1) * columns + k];
    for (int64_t next = chunk + 1; next < chunks && order.row[next * size] == row; ++next)
      sum += parts[next * 2 * columns + k];
    store_sum(a, Column(a, k), row, dst, sum);
  }
}

// Writes to each row of dst the sum of its sources; rows without a source are not written. `memory`
// has row_sum_bytes(a) bytes.
template <class C, class Source>
void sum_in_chunks(KernelContext& ctx, const RowOrder& order, const RowAccumulation& a,
                   const Source& source, void* dst, void* memory) {
  const int64_t columns = a.outer * a.inner;
  if (a.count == 0 || columns == 0) return;
  const int64_t size = sources_per_chunk(a), chunks = chunks_of(a);
  const int64_t whole_warps = (columns + kWarp - 1) / kWarp * kWarp;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(whole_warps, kThreads));
  const int64_t tiles = (columns + threads - 1) / threads;
  C* const parts = static_cast<C*>(memory);
  launch(ctx, sum_chunks<C, Source>, blocks_per_task(ctx, chunks * tiles), threads, order, a,
         source, size, chunks, tiles, dst, parts);
  if (chunks > 1)
    launch(ctx, join_chunks<C>, blocks_per_task(ctx, (chunks - 1) * tiles), threads, order, a, size,
           chunks, tiles, parts, dst);
}

}  // namespace mxlite::cuda
