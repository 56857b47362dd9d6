// The parts of csr arrays come from users. Rows are clipped to the stored values and columns out of
// range are skipped, so that invalid arrays give wrong values but no invalid memory access.
#include "cpp/ops/cuda/ordered_sums.cuh"
#include "cpp/ops/cuda/sparse/rows.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite::cuda {
namespace {

using namespace sparse;  // NOLINT: this file uses its parameters

struct Csr {
  Csr(const TensorRef& indices, const TensorRef& indptr, int64_t cols = 0)
      : columns(indices.as<int64_t>()),
        starts(indptr.as<int64_t>()),
        rows(indptr.shape[0] - 1),
        cols(cols),
        nnz(indices.shape[0]) {}
  __device__ int64_t begin(int64_t row) const { return cut(starts[row], 0); }
  __device__ int64_t end(int64_t row) const { return cut(starts[row + 1], begin(row)); }
  __device__ bool inside(int64_t k) const { return columns[k] >= 0 && columns[k] < cols; }
  // Returns the row that stored value k belongs to, or -1.
  __device__ int64_t row_of(int64_t k) const {
    int64_t low = 0, high = rows;  // finds the last row that begins at most at k
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (starts[middle + 1] <= k)
        low = middle + 1;
      else
        high = middle;
    }
    return low < rows && begin(low) <= k && k < end(low) ? low : -1;
  }

  const int64_t* columns;
  const int64_t* starts;
  int64_t rows, cols, nnz;

 private:
  __device__ int64_t cut(int64_t at, int64_t least) const {
    return at < least ? least : at > nnz ? nnz : at;
  }
};

// Arrays of a kernel, which share one dtype.
struct Arrays {
  const void *data, *rhs;
  void* out;
  DType dtype;
};

// ---- products ---------------------------------------------------------------------------------

template <class C>
__global__ void multiply(const __grid_constant__ Csr csr, int64_t n, Arrays a) {
  for (int64_t i = global_index(); i < csr.rows * n; i += grid_stride()) {
    const int64_t r = i / n, j = i % n;
    C sum = C(0);
    for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k)
      if (csr.inside(k))
        sum += load_as<C>(a.data, a.dtype, k) * load_as<C>(a.rhs, a.dtype, csr.columns[k] * n + j);
    store_as<C>(a.out, a.dtype, i, sum);
  }
}

// Loads products of stored values and rows of rhs; without rhs, the stored values themselves.
struct StoredValues {
  Csr csr;
  Arrays arrays;
  template <class C>
  __device__ C load(const RowAccumulation& a, int64_t k, const Column& at) const {
    const int64_t r = csr.row_of(k);
    if (r < 0) return C(0);
    const C v = load_as<C>(arrays.data, a.dtype, k);
    return arrays.rhs ? v * load_as<C>(arrays.rhs, a.dtype, r * a.inner + at.inner) : v;
  }
};

void run_transposed(KernelContext& ctx, const Csr& csr, int64_t n, const Arrays& a,
                    const TensorRef& out) {
  zero_bytes(ctx, out.data, out.bytes());
  if (csr.nnz == 0 || n == 0) return;
  const RowAccumulation sums{a.dtype, 1, csr.nnz, csr.cols, n};
  void* memory = nullptr;
  const RowOrder order =
      order_rows(ctx, csr.columns, csr.nnz, csr.cols, row_sum_bytes(sums), &memory);
  dispatch_sum(a.dtype, [&]<class C>(C) {
    sum_in_chunks<C>(ctx, order, sums, StoredValues{csr, a}, a.out, memory);
  });
}

void csr_dot(KernelContext& ctx, const CsrDotParams& p, Inputs in, Outputs out) {
  const Csr csr(in[1], in[2], p.shape[1]);
  const int64_t n = in[3].shape[1];
  const Arrays a{in[0].data, in[3].data, out[0].data, in[0].dtype};
  if (p.transpose) return run_transposed(ctx, csr, n, a, out[0]);
  dispatch_sum(a.dtype,
               [&]<class C>(C) { launch_items(ctx, multiply<C>, csr.rows * n, csr, n, a); });
}

// One warp per stored value.
template <class C>
__global__ void sampled_multiply(const __grid_constant__ Csr csr, int64_t n, Arrays a) {
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t k = global_index() / kWarp; k < csr.nnz; k += grid_stride() / kWarp) {
    const int64_t r = csr.row_of(k);
    C sum = C(0);
    if (r >= 0 && csr.inside(k))
      for (int64_t j = lane; j < n; j += kWarp)
        sum += load_as<C>(a.data, a.dtype, r * n + j) *
               load_as<C>(a.rhs, a.dtype, csr.columns[k] * n + j);
    sum = warp_sum(sum);
    if (lane == 0) store_as<C>(a.out, a.dtype, k, sum);
  }
}
void csr_sampled_dot(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Csr csr(in[2], in[3], in[1].shape[0]);
  const Arrays a{in[0].data, in[1].data, out[0].data, in[0].dtype};
  dispatch_sum(a.dtype, [&]<class C>(C) {
    launch_items(ctx, sampled_multiply<C>, csr.nnz * kWarp, csr, in[0].shape[1], a);
  });
}

template <class C>
__global__ void spread(const __grid_constant__ Csr csr, int64_t n, Arrays a) {
  for (int64_t i = global_index(); i < csr.nnz * n; i += grid_stride()) {
    const int64_t k = i / n, r = csr.row_of(k);
    const C v =
        r < 0 ? C(0) : load_as<C>(a.data, a.dtype, k) * load_as<C>(a.rhs, a.dtype, r * n + i % n);
    store_as<C>(a.out, a.dtype, i, v);
  }
}
void csr_spread(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Csr csr(in[0], in[1]);  // the first input only gives the number of stored values
  const int64_t n = in[2].shape[1];
  const Arrays a{in[0].data, in[2].data, out[0].data, in[2].dtype};
  dispatch_sum(a.dtype, [&]<class C>(C) { launch_items(ctx, spread<C>, csr.nnz * n, csr, n, a); });
}

template <class C>
__global__ void sum_rows_of(const __grid_constant__ Csr csr, Arrays a) {
  for (int64_t r = global_index(); r < csr.rows; r += grid_stride()) {
    C sum = C(0);
    for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k)
      if (csr.inside(k)) sum += load_as<C>(a.data, a.dtype, k);
    store_as<C>(a.out, a.dtype, r, sum);
  }
}
void csr_sum(KernelContext& ctx, const CsrSumParams& p, Inputs in, Outputs out) {
  const Csr csr(in[1], in[2], p.shape[1]);
  const Arrays a{in[0].data, nullptr, out[0].data, in[0].dtype};
  if (p.axis == 0) return run_transposed(ctx, csr, 1, a, out[0]);
  dispatch_sum(a.dtype, [&]<class C>(C) { launch_items(ctx, sum_rows_of<C>, csr.rows, csr, a); });
}

// ---- conversions to and from dense arrays ----------------------------------------------------

// One thread per row, because a column may be stored twice.
template <class C>
__global__ void add_rows(const __grid_constant__ Csr csr, Arrays a) {
  for (int64_t r = global_index(); r < csr.rows; r += grid_stride())
    for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k) {
      if (!csr.inside(k)) continue;
      const int64_t at = r * csr.cols + csr.columns[k];
      store_as<C>(a.out, a.dtype, at,
                  load_as<C>(a.out, a.dtype, at) + load_as<C>(a.data, a.dtype, k));
    }
}
void csr_to_dense(KernelContext& ctx, const ShapeParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const Csr csr(in[1], in[2], p.shape[1]);
  const Arrays a{in[0].data, nullptr, out[0].data, in[0].dtype};
  dispatch_sum(a.dtype, [&]<class C>(C) { launch_items(ctx, add_rows<C>, csr.rows, csr, a); });
}

template <class Word>
__global__ void gather(const __grid_constant__ Csr csr, bool one_row, bool one_column,
                       const Word* from, Word* to) {
  for (int64_t k = global_index(); k < csr.nnz; k += grid_stride()) {
    const int64_t r = csr.row_of(k);
    const bool stored = r >= 0 && (one_column || csr.inside(k));
    to[k] =
        stored ? from[(one_row ? 0 : r * csr.cols) + (one_column ? 0 : csr.columns[k])] : Word(0);
  }
}
void csr_gather(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const bool one_row = in[0].shape[0] == 1, one_column = in[0].shape[1] == 1;
  const Csr csr(in[1], in[2], in[0].shape[1]);
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, gather<Word>, csr.nnz, csr, one_row, one_column, in[0].as<Word>(),
                 out[0].as<Word>());
  });
}

// Counts values: a block per row writes counts[r + 1], then one block computes prefix sums of the
// counts.
__global__ void __launch_bounds__(kThreads)
    count_rows(int64_t rows, int64_t cols, const void* data, DType dtype, int64_t* counts) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    int64_t own = 0;
    for (int64_t k = threadIdx.x; k < cols; k += blockDim.x)
      own += !(load_any<double>(data, dtype, r * cols + k) == 0);
    own = block_sum(own);
    if (threadIdx.x == 0) counts[r + 1] = own;
  }
}
__global__ void __launch_bounds__(kThreads) sum_counts(int64_t rows, int64_t* counts) {
  const int64_t part = (rows + kThreads - 1) / kThreads;
  const int64_t begin = part * threadIdx.x;
  const int64_t end = begin + part < rows ? begin + part : rows;
  int64_t own = 0, total = 0;
  for (int64_t r = begin; r < end; ++r) own += counts[r + 1];
  int64_t sum = block_start(own, total);
  for (int64_t r = begin; r < end; ++r) counts[r + 1] = sum += counts[r + 1];
  if (threadIdx.x == 0) counts[0] = 0;
}
void count_values(KernelContext& ctx, const TensorRef& data, int64_t* counts) {
  const int64_t rows = data.shape[0], cols = data.shape[1];
  if (rows > 0)
    launch(ctx, count_rows, blocks_per_task(ctx, rows), threads_for_columns(cols), rows, cols,
           data.data, data.dtype, counts);
  launch(ctx, sum_counts, 1, kThreads, rows, counts);
}
void csr_count(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  count_values(ctx, in[0], out[0].as<int64_t>());
}

template <class Word>
__global__ void __launch_bounds__(kThreads)
    collect(int64_t rows, int64_t cols, int64_t nnz, const int64_t* starts, const Word* from,
            DType dtype, Word* data, int64_t* columns) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x)
    list_kept(
        cols, [&](int64_t k) { return !(load_any<double>(from, dtype, r * cols + k) == 0); },
        [&](int64_t k, int64_t place) {
          const int64_t at = starts[r] + place;
          if (at >= nnz) return;
          data[at] = from[r * cols + k];
          columns[at] = k;
        });
}
void csr_collect(KernelContext& ctx, const CountParams& p, Inputs in, Outputs out) {
  const int64_t rows = in[0].shape[0], cols = in[0].shape[1];
  if (in[0].size() == 0 || p.nnz == 0) return;
  auto* const starts =
      static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(rows + 1) * sizeof(int64_t)));
  count_values(ctx, in[0], starts);
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch(ctx, collect<Word>, blocks_per_task(ctx, rows), kThreads, rows, cols, p.nnz, starts,
           in[0].as<Word>(), in[0].dtype, out[0].as<Word>(), out[1].as<int64_t>());
  });
}

__global__ void write_rows(const __grid_constant__ Csr csr, int64_t* out) {
  for (int64_t k = global_index(); k < csr.nnz; k += grid_stride()) {
    const int64_t r = csr.row_of(k);
    out[k] = r < 0 ? 0 : r;
  }
}
void csr_rows(KernelContext& ctx, const CountParams& p, Inputs in, Outputs out) {
  const Csr csr(out[0], in[0]);  // only the length of the first array is used
  launch_items(ctx, write_rows, p.nnz, csr, out[0].as<int64_t>());
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&csr_dot>("_csr_dot");
  ops.cuda_kernel<&csr_sampled_dot>("_csr_sampled_dot");
  ops.cuda_kernel<&csr_spread>("_csr_spread");
  ops.cuda_kernel<&csr_to_dense>("_csr_to_dense");
  ops.cuda_kernel<&csr_gather>("_csr_gather");
  ops.cuda_kernel<&csr_count>("_csr_count");
  ops.cuda_kernel<&csr_collect>("_csr_collect");
  ops.cuda_kernel<&csr_rows>("_csr_rows");
  ops.cuda_kernel<&csr_sum>("_csr_sum");
});

}  // namespace mxlite::cuda
