// Scatter-add of rows, the gradient of every gather.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Sets dst (outer, num_rows, inner) to zero and adds src (outer, count, inner)[:, i] to row rows[i]
// for each i. Rows must be in range. `order` has memory for 2 * count numbers. Sums are computed in
// the compute type and in source order, so results do not depend on the number of threads.
struct RowAccumulation {
  DType dtype;
  int64_t outer, count, num_rows, inner;
  const int64_t* rows;
  int64_t* order;
};
void accumulate_rows(const RowAccumulation& a, const void* src, void* dst);

}  // namespace mxlite::cpu
