#include "cpp/ops/cuda/row_sums.cuh"
#include "cpp/ops/cuda/sparse/rows.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/cuda/tile_list.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite::cuda {
namespace {

using sparse::EmbeddingRowsParams;
using sparse::ShapeParams;

int64_t row_size(const TensorRef& t) { return t.shape.product(1, t.shape.ndim()); }

RowAccumulation accumulation_of(const TensorRef& values, int64_t num_rows) {
  return {values.dtype, 1, values.shape[0], num_rows, row_size(values)};
}

void row_sparse_to_dense(KernelContext& ctx, const ShapeParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const RowAccumulation a = accumulation_of(in[0], p.shape[0]);
  void* sums = nullptr;
  const RowOrder order =
      order_rows(ctx, in[1].as<int64_t>(), a.count, p.shape[0], row_sum_bytes(a), &sums);
  sum_ordered_rows(ctx, order, a, in[0].data, out[0].data, sums);
}

// Writes the positions of queries in an ascending list, or -1 for queries that are not in the list.
__global__ void find_all(int64_t n, const int64_t* list, int64_t count, const int64_t* queries,
                         int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    out[i] = find_row(list, count, queries[i]);
}
void merge_rows(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const int64_t rows = in[2].shape[0];
  const RowAccumulation a = accumulation_of(in[0], rows);
  ScratchPlan plan;
  const size_t places_at = plan.add(static_cast<size_t>(a.count) * sizeof(int64_t));
  const size_t sums_at = plan.add(row_sum_bytes(a));
  void* block = nullptr;
  RowOrder order = order_rows(ctx, in[1].as<int64_t>(), a.count, kAnyRow, plan.bytes(), &block);
  auto* const places = part<int64_t>(block, places_at);
  launch_items(ctx, find_all, a.count, a.count, in[2].as<int64_t>(), rows, order.row, places);
  order.row = places;
  sum_ordered_rows(ctx, order, a, in[0].data, out[0].data, part<void>(block, sums_at));
}

// One block per row.
__global__ void __launch_bounds__(kThreads)
    mark_nonzero(int64_t rows, int64_t width, const void* data, DType dtype, uint8_t* marks) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    int found = 0;
    for (int64_t k = threadIdx.x; k < width; k += blockDim.x)
      found |= !(load_any<double>(data, dtype, r * width + k) == 0);
    found = block_max(found, 0);
    if (threadIdx.x == 0) marks[r] = static_cast<uint8_t>(found);
  }
}
struct MarkedRows {
  const uint8_t* marks;
  __device__ bool keeps(int64_t i) const { return marks[i] != 0; }
  __device__ int64_t value(int64_t i) const { return i; }
};
void nonzero_rows(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t rows = in[0].shape[0], width = row_size(in[0]);
  ScratchPlan plan;
  const size_t marks_at = plan.add(static_cast<size_t>(rows));
  const size_t list_at = plan.add(list_bytes(rows));
  void* const block = ctx.scratch(plan.bytes());
  auto* const marks = part<uint8_t>(block, marks_at);
  if (rows > 0)
    launch(ctx, mark_nonzero, blocks_per_task(ctx, rows), threads_for_columns(width), rows, width,
           in[0].data, in[0].dtype, marks);
  write_list(ctx, rows, MarkedRows{marks}, part<void>(block, list_at), out[0].as<int64_t>());
}

struct FirstOfRuns {
  const int64_t* row;
  __device__ bool keeps(int64_t i) const { return i == 0 || row[i] != row[i - 1]; }
  __device__ int64_t value(int64_t i) const { return row[i]; }
};
void unique_rows(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t count = in[0].shape[0];
  void* scratch = nullptr;
  const RowOrder order =
      order_rows(ctx, in[0].as<int64_t>(), count, kAnyRow, list_bytes(count), &scratch);
  write_list(ctx, count, FirstOfRuns{order.row}, scratch, out[0].as<int64_t>());
}

// As in Embedding, indices are truncated to integers and clipped to the table.
__global__ void clip_rows(int64_t n, const void* indices, DType dtype, int64_t last, int64_t* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double v = load_any<double>(indices, dtype, i);
    if (!(v > 0))
      out[i] = 0;  // also for NaN
    else
      out[i] = v < static_cast<double>(last) ? static_cast<int64_t>(v) : last;
  }
}
void embedding_rows(KernelContext& ctx, const EmbeddingRowsParams& p, Inputs in, Outputs out) {
  launch_items(ctx, clip_rows, in[0].size(), in[0].size(), in[0].data, in[0].dtype, p.input_dim - 1,
               out[0].as<int64_t>());
}

void find_rows(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = in[1].shape[0];
  launch_items(ctx, find_all, n, n, in[0].as<int64_t>(), in[0].shape[0], in[1].as<int64_t>(),
               out[0].as<int64_t>());
}

template <class Word>
__global__ void take_rows(int64_t n, int64_t width, const Word* values, const int64_t* list,
                          int64_t count, const int64_t* queries, Word* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t at = find_row(list, count, queries[i / width]);
    out[i] = at < 0 ? Word(0) : values[at * width + i % width];
  }
}
void row_sparse_take(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, take_rows<Word>, n, n, row_size(in[0]), in[0].as<Word>(), in[1].as<int64_t>(),
                 in[1].shape[0], in[2].as<int64_t>(), out[0].as<Word>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&row_sparse_to_dense>("_row_sparse_to_dense");
  ops.cuda_kernel<&nonzero_rows>("_nonzero_rows");
  ops.cuda_kernel<&embedding_rows>("_embedding_rows");
  ops.cuda_kernel<&unique_rows>("_unique_rows");
  ops.cuda_kernel<&merge_rows>("_merge_rows");
  ops.cuda_kernel<&find_rows>("_find_rows");
  ops.cuda_kernel<&row_sparse_take>("_row_sparse_take");
});

}  // namespace mxlite::cuda
