// Greedy matching of rows and columns of score matrices: many blocks sort the scores of all
// matrices, then one block per matrix chooses pairs, the best first.
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/cuda/vision/suppression_plan.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/bipartite_matching.h"

namespace mxlite::cuda {
namespace {

struct MatchingArgs {
  const void* scores;
  void *row_match, *column_match;
  DType dtype;
  int64_t first_matrix, matrices;  // range of matrices that this pass processes
  int64_t rows, columns, most, padded;
  bool is_ascend;
  double threshold;
  Ranked* entries;
};

// Makes sort keys; scores that do not pass the threshold get the last key.
template <class C>
__global__ void rank_scores(int64_t n, const __grid_constant__ MatchingArgs a) {
  const int64_t size = a.rows * a.columns;
  const C threshold = static_cast<C>(a.threshold);
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t i = at % a.padded;
    Ranked entry{kLastKey, i};
    if (i < size) {
      const C score = load_as<C>(a.scores, a.dtype, (a.first_matrix + at / a.padded) * size + i);
      const double value = static_cast<double>(score);
      if (a.is_ascend ? score < threshold : score > threshold)
        entry.key = a.is_ascend ? rising_key(value) : falling_key(value);
    }
    a.entries[at] = entry;
  }
}

// Each match affects later pairs. The block examines kThreads pairs at a time and selects the first
// pair whose row and column are free, until no such pair is left.
template <class C>
__global__ void __launch_bounds__(kThreads) match_ranked(const __grid_constant__ MatchingArgs a) {
  __shared__ int64_t taken_row, taken_column;
  const int64_t size = a.rows * a.columns;
  for (int64_t own = blockIdx.x; own < a.matrices; own += gridDim.x) {
    const int64_t first_row = (a.first_matrix + own) * a.rows;
    const int64_t first_column = (a.first_matrix + own) * a.columns;
    const Ranked* const entries = a.entries + own * a.padded;
    for (int64_t i = threadIdx.x; i < a.rows; i += kThreads)
      store_as<C>(a.row_match, a.dtype, first_row + i, C(-1));
    for (int64_t i = threadIdx.x; i < a.columns; i += kThreads)
      store_as<C>(a.column_match, a.dtype, first_column + i, C(-1));
    int64_t left = a.most;
    for (int64_t first = 0; first < size && left > 0; first += kThreads) {
      __syncthreads();  // makes earlier matches visible to all threads
      const int64_t i = first + threadIdx.x;
      const int64_t index = i < size && entries[i].key != kLastKey ? entries[i].index : -1;
      const int64_t row = index / a.columns, column = index % a.columns;
      bool is_free = index >= 0 && load_as<C>(a.row_match, a.dtype, first_row + row) < C(0) &&
                     load_as<C>(a.column_match, a.dtype, first_column + column) < C(0);
      while (left > 0) {
        // The first thread with a free pair has the largest number.
        const int number = kThreads - static_cast<int>(threadIdx.x);
        const int chosen = block_max(is_free ? number : 0, 0);
        if (chosen == 0) break;
        if (number == chosen) {
          taken_row = row;
          taken_column = column;
          store_as<C>(a.row_match, a.dtype, first_row + row, static_cast<C>(column));
          store_as<C>(a.column_match, a.dtype, first_column + column, static_cast<C>(row));
        }
        __syncthreads();
        is_free = is_free && row != taken_row && column != taken_column;
        --left;
      }
      const int64_t past = first + kThreads < size ? first + kThreads : size;
      if (entries[past - 1].key == kLastKey) break;
    }
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
  const int64_t matrices = shape.product(0, shape.ndim() - 2);
  if (matrices == 0) return;
  a.most = std::min(a.rows, a.columns);
  if (p.topk > 0) a.most = std::min<int64_t>(a.most, int64_t{p.topk} + 1);
  a.padded = power_of_two_from(a.rows * a.columns);
  a.is_ascend = p.is_ascend;
  a.threshold = static_cast<double>(p.threshold);
  const int64_t bytes = a.padded * static_cast<int64_t>(sizeof(Ranked));
  const int64_t step = images_per_pass(matrices, 0, bytes);
  a.entries = static_cast<Ranked*>(ctx.scratch(static_cast<size_t>(step * bytes)));
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    for (a.first_matrix = 0; a.first_matrix < matrices; a.first_matrix += step) {
      a.matrices = std::min(step, matrices - a.first_matrix);
      const int64_t num_entries = a.matrices * a.padded;
      launch_items(ctx, rank_scores<C>, num_entries, num_entries, a);
      sort_ranked_lists(ctx, a.entries, a.matrices, a.padded);
      launch(ctx, match_ranked<C>, blocks_per_task(ctx, a.matrices), kThreads, a);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::bipartite_matching>("_contrib_bipartite_matching");
});

}  // namespace mxlite::cuda
