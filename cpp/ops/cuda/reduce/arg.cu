// argmax and argmin: one block per row if the axis is the last axis, else one thread per result.
#include "cpp/ops/cuda/extreme.cuh"
#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Sizes of data viewed as (outer, n, inner).
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
};

Split split_at(const Shape& shape, const std::optional<int64_t>& axis) {
  if (!axis) return {1, shape.size(), 1};
  const int a = normalize_axis("argmax", *axis, shape.ndim());
  return {shape.product(0, a), shape[a], shape.product(a + 1, shape.ndim())};
}

struct Arrays {
  const void* in;
  DType in_dtype;
  void* out;
  DType out_dtype;
};

template <class C, bool smallest>
__global__ void find_in_rows(Split s, Arrays a) {
  for (int64_t row = blockIdx.x; row < s.outer; row += gridDim.x) {
    Extreme<C, smallest> best;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x)
      best.take(load_as<C>(a.in, a.in_dtype, row * s.n + i), i);
    best.join_block();
    if (threadIdx.x == 0) store_any<int64_t>(a.out, a.out_dtype, row, best.at < 0 ? 0 : best.at);
  }
}

template <class C, bool smallest>
__global__ void find_in_columns(Split s, Arrays a) {
  for (int64_t i = global_index(); i < s.outer * s.inner; i += grid_stride()) {
    const int64_t first = i / s.inner * s.n * s.inner + i % s.inner;
    Extreme<C, smallest> best;
    for (int64_t k = 0; k < s.n; ++k)
      best.take(load_as<C>(a.in, a.in_dtype, first + k * s.inner), k);
    store_any<int64_t>(a.out, a.out_dtype, i, best.at < 0 ? 0 : best.at);
  }
}

template <bool smallest>
void find(KernelContext& ctx, const Split& s, const TensorRef& in, const TensorRef& out) {
  if (out.size() == 0) return;
  const Arrays a{in.data, in.dtype, out.data, out.dtype};
  dispatch_sum(in.dtype, [&]<class C>(C) {
    if (s.inner == 1)
      launch(ctx, find_in_rows<C, smallest>, blocks_per_task(ctx, s.outer), kThreads, s, a);
    else
      launch_items(ctx, find_in_columns<C, smallest>, s.outer * s.inner, s, a);
  });
}

template <bool smallest>
void arg(KernelContext& ctx, const ArgParams& p, Inputs in, Outputs out) {
  find<smallest>(ctx, split_at(in[0].shape, p.axis), in[0], out[0]);
}
void channel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  find<false>(ctx, split_at(in[0].shape, 1), in[0], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::arg<false>>("argmax");
  ops.cuda_kernel<&cuda::arg<true>>("argmin");
  ops.cuda_kernel<&cuda::arg<false>>("_npi_argmax");
  ops.cuda_kernel<&cuda::arg<true>>("_npi_argmin");
  ops.cuda_kernel<&cuda::channel>("argmax_channel");
});

}  // namespace mxlite::cuda
