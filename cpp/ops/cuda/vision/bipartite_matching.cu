#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/vision/bipartite_matching.h"

namespace mxlite {
namespace cuda {
namespace {

struct MatchingArgs {
  const void* scores;
  void *row_match, *column_match;
  DType dtype;
  int64_t matrices, rows, columns, most, padded;
  bool is_ascend;
  double threshold;
  Ranked* entries;  // per block
};

template <class C>
__global__ void __launch_bounds__(kThreads) match(const __grid_constant__ MatchingArgs a) {
  Ranked* const entries = a.entries + blockIdx.x * a.padded;
  const int64_t size = a.rows * a.columns;
  for (int64_t m = blockIdx.x; m < a.matrices; m += gridDim.x) {
    int64_t count = 0;
    for (int64_t i = threadIdx.x; i < a.padded; i += blockDim.x) {
      Ranked entry{kLastKey, i};
      if (i < size) {
        const C score = load_as<C>(a.scores, a.dtype, m * size + i);
        const C threshold = static_cast<C>(a.threshold);
        if (a.is_ascend ? score < threshold : score > threshold) {
          const double value = static_cast<double>(score);
          entry.key = a.is_ascend ? rising_key(value) : falling_key(value);
          ++count;
        }
      }
      entries[i] = entry;
    }
    for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
      store_as<C>(a.row_match, a.dtype, m * a.rows + i, C(-1));
    for (int64_t i = threadIdx.x; i < a.columns; i += blockDim.x)
      store_as<C>(a.column_match, a.dtype, m * a.columns + i, C(-1));
    count = block_sum(count);
    sort_ranked(entries, a.padded);
    // Each match decides about the ones behind it: one thread goes through them.
    int64_t left = threadIdx.x == 0 ? a.most : 0;
    for (int64_t i = 0; i < count && left > 0; ++i) {
      const int64_t row = entries[i].index / a.columns, column = entries[i].index % a.columns;
      const int64_t to_row = m * a.rows + row, to_column = m * a.columns + column;
      if (load_as<C>(a.row_match, a.dtype, to_row) >= 0 ||
          load_as<C>(a.column_match, a.dtype, to_column) >= 0)
        continue;
      store_as<C>(a.row_match, a.dtype, to_row, static_cast<C>(column));
      store_as<C>(a.column_match, a.dtype, to_column, static_cast<C>(row));
      --left;
    }
    __syncthreads();
  }
}

void bipartite_matching(KernelContext& ctx, const BipartiteMatchingParams& p, Inputs in,
                        Outputs out) {
  const Shape& shape = in[0].shape;
  MatchingArgs a{};
  a.scores = in[0].data;
  a.row_match = out[0].data;
  a.column_match = out[1].data;
  a.dtype = in[0].dtype;
  a.rows = shape[shape.ndim() - 2];
  a.columns = shape.back();
  a.matrices = shape.product(0, shape.ndim() - 2);
  if (a.matrices == 0) return;
  a.most = std::min(a.rows, a.columns);
  if (p.topk > 0) a.most = std::min<int64_t>(a.most, int64_t{p.topk} + 1);
  a.padded = power_of_two_from(a.rows * a.columns);
  a.is_ascend = p.is_ascend;
  a.threshold = static_cast<double>(p.threshold);
  const int64_t blocks = std::min(a.matrices, kMostImageBlocks);
  a.entries =
      static_cast<Ranked*>(ctx.scratch(static_cast<size_t>(blocks * a.padded) * sizeof(Ranked)));
  dispatch_box_compute(a.dtype, [&]<class C>(C) {
    launch(ctx, match<C>, static_cast<unsigned>(blocks), kThreads, a);
  });
}

}  // namespace
}  // namespace cuda

void register_bipartite_matching_cuda(OpRegistry& ops) {
  ops.kernel<&cuda::bipartite_matching>("_contrib_bipartite_matching", DeviceType::kCUDA);
}

}  // namespace mxlite
