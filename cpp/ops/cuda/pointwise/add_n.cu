// Sum of many arrays in one pass, so that 16-bit floats are rounded once.
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr int kMostArrays = 64;

template <class C>
struct SumArgs {
  const void* in[kMostArrays];
  int count;
  DType dtype;
  void* out;
};

template <class C>
__global__ void add_arrays(int64_t n, const __grid_constant__ SumArgs<C> a) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    C sum = load_as<C>(a.in[0], a.dtype, i);
    for (int k = 1; k < a.count; ++k) sum = pointwise::added(sum, load_as<C>(a.in[k], a.dtype, i));
    store_as<C>(a.out, a.dtype, i, sum);
  }
}

void add_n(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_compute(pointwise::compute_for_arithmetic(out[0].dtype), [&]<class C>(C) {
    for (size_t first = 0; first < in.size();) {
      SumArgs<C> a{{}, 0, out[0].dtype, out[0].data};
      if (first > 0) a.in[a.count++] = out[0].data;
      while (first < in.size() && a.count < kMostArrays) a.in[a.count++] = in[first++].data;
      launch_items(ctx, add_arrays<C>, out[0].size(), out[0].size(), a);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels,
                                       [](OpRegistry& ops) { ops.cuda_kernel<&add_n>("add_n"); });

}  // namespace mxlite::cuda
