// Sums of rows, ordered by their destination.
#pragma once
#include "cpp/ops/cuda/accumulate_rows.cuh"

namespace mxlite::cuda {

// Returns the bytes of memory that sum_ordered_rows needs.
size_t row_sum_bytes(const RowAccumulation& a);
// Writes the sums to the rows of dst that have a source. Equal rows of `order` must be adjacent.
// Sources whose row is not in dst are skipped.
void sum_ordered_rows(KernelContext& ctx, const RowOrder& order, const RowAccumulation& a,
                      const void* src, void* dst, void* memory);

}  // namespace mxlite::cuda
