#include <cub/device/device_radix_sort.cuh>

#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

// the caller's | rows | sorted rows | positions | sorted positions | the sort's own memory
struct Parts {
  size_t rows, sorted, position, sorted_position, sort, sort_bytes, bytes;
};

Parts parts_of(int64_t count, size_t extra_bytes = 0) {
  Parts p{};
  ScratchPlan plan;
  plan.add(extra_bytes);
  const size_t bytes = static_cast<size_t>(count) * sizeof(int64_t);
  p.rows = plan.add(bytes);
  p.sorted = plan.add(bytes);
  p.position = plan.add(bytes);
  p.sorted_position = plan.add(bytes);
  const int64_t* const in = nullptr;
  int64_t* const out = nullptr;
  MX_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, p.sort_bytes, in, out, in, out, count));
  p.sort = plan.add(p.sort_bytes);
  p.bytes = plan.bytes();
  return p;
}

__global__ void count_up(int64_t n, int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) out[i] = i;
}

__global__ void keep_rows(int64_t n, int64_t num_rows, const int64_t* rows, int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    out[i] = rows[i] >= 0 && rows[i] < num_rows ? rows[i] : num_rows;
}

// Returns the number of bits that hold every number in [0, count).
int bits_for(int64_t count) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < count) ++bits;
  return bits;
}

void sort(KernelContext& ctx, void* block, Parts p, const int64_t* rows, int64_t count, int bits) {
  launch_items(ctx, count_up, count, count, part<int64_t>(block, p.position));
  MX_CUDA(cub::DeviceRadixSort::SortPairs(
      part<void>(block, p.sort), p.sort_bytes, rows, part<int64_t>(block, p.sorted),
      part<const int64_t>(block, p.position), part<int64_t>(block, p.sorted_position), count, 0,
      bits, stream(ctx)));
}

struct SortedRows {
  const int64_t *row, *position;
  int64_t count;
};

// One block per run of equal rows, columns shared by its threads.
template <class C>
__global__ void sum_runs(const __grid_constant__ SortedRows s,
                         const __grid_constant__ RowAccumulation a, const void* src, void* dst) {
  for (int64_t first = blockIdx.x; first < s.count; first += gridDim.x) {
    const int64_t row = s.row[first];
    if (first > 0 && s.row[first - 1] == row) continue;
    for (int64_t k = threadIdx.x; k < a.outer * a.inner; k += blockDim.x) {
      const int64_t o = k / a.inner, column = k - o * a.inner;
      C sum = C(0);
      for (int64_t i = first; i < s.count && s.row[i] == row; ++i)
        sum += load_as<C>(src, a.dtype, (o * a.count + s.position[i]) * a.inner + column);
      store_as<C>(dst, a.dtype, (o * a.num_rows + row) * a.inner + column, sum);
    }
  }
}

template <class C>
void run(KernelContext& ctx, const SortedRows& s, const RowAccumulation& a, const void* src,
         void* dst) {
  const int64_t columns = (a.outer * a.inner + kWarp - 1) / kWarp * kWarp;
  launch(ctx, sum_runs<C>, blocks_per_task(ctx, s.count),
         static_cast<unsigned>(std::min<int64_t>(columns, kThreads)), s, a, src, dst);
}

}  // namespace

int64_t* accumulation_rows(KernelContext& ctx, int64_t count) {
  const Parts p = parts_of(count);
  return part<int64_t>(ctx.scratch(p.bytes), p.rows);
}

void accumulate_rows(KernelContext& ctx, const RowAccumulation& a, const void* src, void* dst) {
  zero_bytes(ctx, dst, static_cast<size_t>(a.outer * a.num_rows * a.inner) * dtype_size(a.dtype));
  if (a.count == 0 || a.outer * a.inner == 0) return;
  const Parts p = parts_of(a.count);
  void* const block = reinterpret_cast<char*>(a.rows) - p.rows;
  sort(ctx, block, p, a.rows, a.count, bits_for(a.num_rows));
  const SortedRows s{part<int64_t>(block, p.sorted), part<int64_t>(block, p.sorted_position),
                     a.count};
  if (a.dtype == DType::kFloat64)
    run<double>(ctx, s, a, src, dst);
  else if (is_floating(a.dtype))
    run<float>(ctx, s, a, src, dst);
  else if (a.dtype == DType::kUInt64)
    run<uint64_t>(ctx, s, a, src, dst);
  else
    run<int64_t>(ctx, s, a, src, dst);
}

RowOrder order_rows(KernelContext& ctx, const int64_t* rows, int64_t count, int64_t num_rows,
                    size_t extra_bytes, void** extra) {
  const Parts p = parts_of(count, extra_bytes);
  void* const block = ctx.scratch(p.bytes);
  if (extra) *extra = block;
  const RowOrder order{count, part<int64_t>(block, p.sorted),
                       part<int64_t>(block, p.sorted_position)};
  if (count == 0) return order;
  if (num_rows == kAnyRow) {
    sort(ctx, block, p, rows, count, 64);
    return order;
  }
  int64_t* const kept = part<int64_t>(block, p.rows);
  launch_items(ctx, keep_rows, count, count, num_rows, rows, kept);
  sort(ctx, block, p, kept, count, bits_for(num_rows + 1));
  return order;
}

}  // namespace mxlite::cuda
