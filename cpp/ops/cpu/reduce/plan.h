// Plans the memory access of a reduction. Adjacent axes that are all reduced or all kept are
// merged. Then the innermost axis is either reduced (rows: each step adds a run to one result) or
// kept (columns: each step adds a run to a tile of results).
#pragma once
#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/kernel.h"
#include "cpp/ops/reduce/reduce.h"

namespace mxlite::reduce {

constexpr int64_t kRun = 4096;  // longest run added in the compute type before it is widened
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
  int64_t offset(int64_t index) const;  // offset of the flattened index
};

struct ReducePlan {
  bool rows = true;
  AxisList kept, reduced;  // outer axes, the run's axis excluded
  int64_t run = 1;         // length of the run's axis
  int64_t run_stride = 1;
  int64_t fold = 1;    // columns: short rows side by side in one run, added up at the end
  int64_t pieces = 1;  // pieces of kRun (rows) or tiles (columns) per run
  int64_t units = 0;   // results (rows) or tiles of results (columns)
  int64_t steps = 0;   // runs to add per unit
  int64_t chunks = 1;  // parts of the steps, for threads; depends only on the shape
  int64_t width() const { return rows ? 1 : std::min(run, kTile); }  // results per unit
};

ReducePlan make_plan(const TensorRef& in, const AxisMask& reduced);

}  // namespace mxlite::reduce
