#include <cub/device/device_radix_sort.cuh>

#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/row_sums.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

// Scratch layout: caller's | rows | sorted rows | positions | sorted positions | memory of the sort
// | sums
struct Parts {
  size_t rows, sorted, position, sorted_position, sort, sort_bytes, sums, bytes;
};

Parts parts_of(int64_t count, size_t extra_bytes = 0, size_t sum_bytes = 0) {
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
  p.sums = plan.add(sum_bytes);
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

// Returns the number of bits needed for numbers in [0, count).
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

}  // namespace

int64_t* accumulation_rows(KernelContext& ctx, const RowAccumulation& a) {
  const Parts p = parts_of(a.count, 0, row_sum_bytes(a));
  return part<int64_t>(ctx.scratch(p.bytes), p.rows);
}

void accumulate_rows(KernelContext& ctx, const RowAccumulation& a, const void* src, void* dst) {
  zero_bytes(ctx, dst, static_cast<size_t>(a.outer * a.num_rows * a.inner) * dtype_size(a.dtype));
  if (a.count == 0 || a.outer * a.inner == 0) return;
  const Parts p = parts_of(a.count, 0, row_sum_bytes(a));
  void* const block = reinterpret_cast<char*>(a.rows) - p.rows;
  sort(ctx, block, p, a.rows, a.count, bits_for(a.num_rows));
  const RowOrder order{a.count, part<int64_t>(block, p.sorted),
                       part<int64_t>(block, p.sorted_position)};
  sum_ordered_rows(ctx, order, a, src, dst, part<void>(block, p.sums));
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

int64_t* rows_to_order(KernelContext& ctx, int64_t count, size_t extra_bytes, void** extra) {
  const Parts p = parts_of(count, extra_bytes);
  void* const block = ctx.scratch(p.bytes);
  if (extra) *extra = block;
  return part<int64_t>(block, p.rows);
}

RowOrder order_written_rows(KernelContext& ctx, int64_t* rows, int64_t count, int64_t num_rows,
                            size_t extra_bytes) {
  const Parts p = parts_of(count, extra_bytes);
  void* const block = reinterpret_cast<char*>(rows) - p.rows;
  if (count > 0) sort(ctx, block, p, rows, count, bits_for(num_rows));
  return {count, part<int64_t>(block, p.sorted), part<int64_t>(block, p.sorted_position)};
}

}  // namespace mxlite::cuda
