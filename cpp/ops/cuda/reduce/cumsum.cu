// Prefix sums: a block scans a row of adjacent elements; otherwise a thread sums a column.
#include "cpp/ops/cuda/block_scan.cuh"
#include "cpp/ops/cuda/reduce/cumsum.h"
#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Call {
  int64_t outer, n, inner;
  bool reverse;
  const void* in;
  DType in_dtype;
  void* out;
  DType out_dtype;
  __device__ __forceinline__ int64_t place(int64_t k) const { return reverse ? n - 1 - k : k; }
};

template <class W>
__global__ void __launch_bounds__(kThreads) scan_rows(const __grid_constant__ Call c) {
  for (int64_t row = blockIdx.x; row < c.outer; row += gridDim.x) {
    W before = W(0);
    for (int64_t begin = 0; begin < c.n; begin += kThreads) {
      const int64_t k = begin + threadIdx.x, at = row * c.n + c.place(k);
      W all;
      const W sum = block_running_sum(k < c.n ? load_any<W>(c.in, c.in_dtype, at) : W(0), all);
      if (k < c.n) store_any<W>(c.out, c.out_dtype, at, before + sum);
      before += all;
    }
  }
}

template <class W>
__global__ void scan_columns(const __grid_constant__ Call c) {
  for (int64_t i = global_index(); i < c.outer * c.inner; i += grid_stride()) {
    const int64_t first = i / c.inner * c.n * c.inner + i % c.inner;
    W total = W(0);
    for (int64_t k = 0; k < c.n; ++k) {
      const int64_t at = first + c.place(k) * c.inner;
      total += load_any<W>(c.in, c.in_dtype, at);
      store_any<W>(c.out, c.out_dtype, at, total);
    }
  }
}

template <bool reverse>
void cumsum(KernelContext& ctx, const CumsumParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const Shape& shape = in[0].shape;
  const int axis = p.axis ? normalize_axis("cumsum", *p.axis, shape.ndim()) : 0;
  const Call c{p.axis ? shape.product(0, axis) : 1,
               p.axis ? shape[axis] : shape.size(),
               p.axis ? shape.product(axis + 1, shape.ndim()) : 1,
               reverse,
               in[0].data,
               in[0].dtype,
               out[0].data,
               out[0].dtype};
  const auto run = [&]<class W>(W) {
    if (c.inner == 1)
      launch(ctx, scan_rows<W>, blocks_per_task(ctx, c.outer), kThreads, c);
    else
      launch_items(ctx, scan_columns<W>, c.outer * c.inner, c);
  };
  // Sums in the wider of the two dtypes.
  if (is_floating(in[0].dtype) || is_floating(out[0].dtype))
    run(double{});
  else if (in[0].dtype == DType::kUInt64)
    run(uint64_t{});
  else
    run(int64_t{});
}

}  // namespace

void running_sums(KernelContext& ctx, const TensorRef& data, int64_t rows, double* sums) {
  const Call c{rows, data.size() / rows, 1, false, data.data, data.dtype, sums, DType::kFloat64};
  launch(ctx, scan_rows<double>, blocks_per_task(ctx, rows), kThreads, c);
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::cumsum<false>>("cumsum");
  ops.cuda_kernel<&cuda::cumsum<true>>("_cumsum_reverse");
});

}  // namespace mxlite::cuda
