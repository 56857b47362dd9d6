// Orders rows by index. Scatter-add, the gradient of every gather, orders them first, so that each
// row is summed in the order of its sources and every run gives the same result.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

// dst (outer, num_rows, inner) = sum over i of src (outer, count, inner)[:, i] at row rows[i]; rows
// without a source are zero. Row numbers must be in range.
struct RowAccumulation {
  DType dtype;
  int64_t outer, count, num_rows, inner;
  int64_t* rows = nullptr;  // from accumulation_rows, filled by the caller; overwritten
  // Number of rows between outer parts of dst. If it differs from num_rows, num_rows only limits
  // the row numbers.
  int64_t outer_step = num_rows;
};
// Returns scratch memory for `count` rows; the memory of sort and sums follows it.
int64_t* accumulation_rows(KernelContext& ctx, const RowAccumulation& a);
void accumulate_rows(KernelContext& ctx, const RowAccumulation& a, const void* src, void* dst);

// Positions 0 .. count - 1, sorted by row and then by position.
struct RowOrder {
  int64_t count;
  const int64_t *row, *position;
};
// The result lies in the call's scratch memory, after `extra_bytes` for the caller. Rows outside
// [0, num_rows) come last and are stored as row num_rows. If num_rows is kAnyRow, rows are not
// changed, and negative rows come first.
inline constexpr int64_t kAnyRow = -1;
RowOrder order_rows(KernelContext& ctx, const int64_t* rows, int64_t count, int64_t num_rows,
                    size_t extra_bytes = 0, void** extra = nullptr);
// These functions do the work of order_rows in two steps: rows_to_order returns scratch memory to
// which the caller writes `count` rows, and order_written_rows sorts them. All rows must be in [0,
// num_rows).
int64_t* rows_to_order(KernelContext& ctx, int64_t count, size_t extra_bytes = 0,
                       void** extra = nullptr);
RowOrder order_written_rows(KernelContext& ctx, int64_t* rows, int64_t count, int64_t num_rows,
                            size_t extra_bytes = 0);

}  // namespace mxlite::cuda
