// Plans the memory access of a reduction. Adjacent axes that are all reduced or all kept are
// merged. If the innermost axis is reduced (rows), each step adds a run to one result; if it is
// kept (columns), each step adds a run to a tile of results.
#pragma once
#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/kernel.h"
#include "cpp/ops/reduce/reduce.h"

namespace mxlite::reduce {

constexpr int64_t kRun = 4096;  // longest run that is summed in the compute type before it is
                                // widened
constexpr int64_t kTile = pointwise::kBlock;
constexpr int64_t kMaxChunks = 64;

struct AxisList {
  int count = 0;
  int64_t size[Shape::kMaxNdim], stride[Shape::kMaxNdim];
  void add(int64_t n, int64_t s) {
    size[count] = n;
    stride[count++] = s;
  }
  int64_t total() const;
  int64_t offset(int64_t index) const;  // returns the offset of a flattened index
};

struct ReducePlan {
  bool rows = true;
  AxisList kept, reduced;  // outer axes; excludes the axis of runs
  int64_t run = 1;         // length of a run's axis
  int64_t run_stride = 1;
  int64_t fold = 1;    // columns: number of short rows that form one run; their sums are added at
                       // the end
  int64_t pieces = 1;  // number of pieces of kRun (rows) or tiles (columns) per run
  int64_t units = 0;   // number of results (rows) or tiles of results (columns)
  int64_t steps = 0;   // number of runs to add per unit
  int64_t chunks = 1;  // number of parts of the steps for threads; depends only on the shape
  int64_t width() const { return rows ? 1 : std::min(run, kTile); }  // number of results per unit
};

ReducePlan make_plan(const TensorRef& in, const AxisMask& reduced);

}  // namespace mxlite::reduce
