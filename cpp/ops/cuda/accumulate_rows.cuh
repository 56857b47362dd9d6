// Scatter-add of rows, the gradient of every gather: sorted by row first, so that each row is
// summed in the order of its sources and the result is the same in every run.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

// dst (outer, num_rows, inner) = sum over i of src (outer, count, inner)[:, i] at row rows[i]; rows
// without a source are zero. Rows are in range.
struct RowAccumulation {
  DType dtype;
  int64_t outer, count, num_rows, inner;
  int64_t* rows;  // from accumulation_rows, filled by the caller; overwritten
};
// The call's scratch memory: `count` numbers for the rows, behind them what the sort takes.
int64_t* accumulation_rows(KernelContext& ctx, int64_t count);
void accumulate_rows(KernelContext& ctx, const RowAccumulation& a, const void* src, void* dst);

}  // namespace mxlite::cuda
