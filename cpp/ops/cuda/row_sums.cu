// Sources are summed in chunks of their order, so that a row with many sources (a token type, the
// padding) has many blocks. A run of equal rows within one chunk is a result; of a run that crosses
// chunks each has a part, and a second kernel joins the parts.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/row_sums.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

constexpr int64_t kChunk = 64;  // sources

int64_t chunks_of(int64_t count) { return (count + kChunk - 1) / kChunk; }

// Element k of a row of dst: its place there and in a row of src.
struct Column {
  int64_t outer, inner;
  __device__ __forceinline__ Column(const RowAccumulation& a, int64_t k)
      : outer(k / a.inner), inner(k - outer * a.inner) {}
};

template <class C>
__device__ __forceinline__ void store_sum(const RowAccumulation& a, const Column& at, int64_t row,
                                          void* dst, C sum) {
  if (row >= 0 && row < a.num_rows)
    store_as<C>(dst, a.dtype, (at.outer * a.num_rows + row) * a.inner + at.inner, sum);
}

// parts: (chunks, 2, columns): of a run that began in an earlier chunk, and of one that begins here
// and continues in the next.
template <class C>
__global__ void sum_chunks(const __grid_constant__ RowOrder order,
                           const __grid_constant__ RowAccumulation a, int64_t chunks, int64_t tiles,
                           const void* src, void* dst, C* parts) {
  const int64_t columns = a.outer * a.inner;
  for (int64_t task = blockIdx.x; task < chunks * tiles; task += gridDim.x) {
    const int64_t chunk = task / tiles, k = task % tiles * blockDim.x + threadIdx.x;
    if (k >= columns) continue;
    const Column at(a, k);
    const int64_t first = chunk * kChunk;
    const int64_t end = first + kChunk < order.count ? first + kChunk : order.count;
    int64_t begin = first;  // the first source of the run
    C sum = C(0);
    for (int64_t i = first; i < end; ++i) {
      sum +=
          load_as<C>(src, a.dtype, (at.outer * a.count + order.position[i]) * a.inner + at.inner);
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

// Each task belongs to a chunk: the run that begins there and continues, if there is one.
template <class C>
__global__ void join_chunks(const __grid_constant__ RowOrder order,
                            const __grid_constant__ RowAccumulation a, int64_t chunks,
                            int64_t tiles, const C* parts, void* dst) {
  const int64_t columns = a.outer * a.inner;
  for (int64_t task = blockIdx.x; task < (chunks - 1) * tiles; task += gridDim.x) {
    const int64_t chunk = task / tiles, k = task % tiles * blockDim.x + threadIdx.x;
    const int64_t first = chunk * kChunk, end = first + kChunk;
    const int64_t row = order.row[end - 1];
    const bool continues = order.row[end] == row;
    const bool began_before = first > 0 && order.row[first - 1] == row;
    if (!continues || began_before || k >= columns) continue;
    C sum = parts[(chunk * 2 + 1) * columns + k];
    for (int64_t next = chunk + 1; next < chunks && order.row[next * kChunk] == row; ++next)
      sum += parts[next * 2 * columns + k];
    store_sum(a, Column(a, k), row, dst, sum);
  }
}

template <class C>
void run(KernelContext& ctx, const RowOrder& order, const RowAccumulation& a, const void* src,
         void* dst, void* memory) {
  const int64_t columns = a.outer * a.inner, chunks = chunks_of(a.count);
  const int64_t whole_warps = (columns + kWarp - 1) / kWarp * kWarp;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(whole_warps, kThreads));
  const int64_t tiles = (columns + threads - 1) / threads;
  C* const parts = static_cast<C*>(memory);
  launch(ctx, sum_chunks<C>, blocks_per_task(ctx, chunks * tiles), threads, order, a, chunks, tiles,
         src, dst, parts);
  if (chunks > 1)
    launch(ctx, join_chunks<C>, blocks_per_task(ctx, (chunks - 1) * tiles), threads, order, a,
           chunks, tiles, parts, dst);
}

}  // namespace

size_t row_sum_bytes(const RowAccumulation& a) {
  return static_cast<size_t>(chunks_of(a.count) * 2 * a.outer * a.inner) * sizeof(double);
}

void sum_ordered_rows(KernelContext& ctx, const RowOrder& order, const RowAccumulation& a,
                      const void* src, void* dst, void* memory) {
  if (a.count == 0 || a.outer * a.inner == 0) return;
  if (a.dtype == DType::kFloat64)
    run<double>(ctx, order, a, src, dst, memory);
  else if (is_floating(a.dtype))
    run<float>(ctx, order, a, src, dst, memory);
  else if (a.dtype == DType::kUInt64)
    run<uint64_t>(ctx, order, a, src, dst, memory);
  else
    run<int64_t>(ctx, order, a, src, dst, memory);
}

}  // namespace mxlite::cuda
