// Two passes, as on the CPU: the largest value, then the sum of exp(value - largest).
#include <cmath>

#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct SumExp : reduce::Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T center) {
    return total + static_cast<T>(exp(x - center));
  }
};

template <class T>
__global__ void choose_centers(int64_t results, int64_t splits, const T* largest, T* centers) {
  for (int64_t i = global_index(); i < results; i += grid_stride()) {
    T center = largest[i];
    for (int64_t s = 1; s < splits; ++s)
      center = reduce::Max::join(center, largest[s * results + i]);
    centers[i] = std::isfinite(center) ? center : T(0);  // differences of infinities are NaN
  }
}

template <class T>
__global__ void finish_logarithm(int64_t results, int64_t splits, const T* sums, const T* centers,
                                 void* out, DType dtype) {
  for (int64_t i = global_index(); i < results; i += grid_stride()) {
    double total = 0;
    for (int64_t s = 0; s < splits; ++s) total += static_cast<double>(sums[s * results + i]);
    store_any<double>(out, dtype, i, static_cast<double>(centers[i]) + log(total));
  }
}

template <class T>
void run(KernelContext& ctx, const ReducePlan& plan, const TensorRef& out) {
  const int64_t results = out.size();
  const size_t count = partial_count<T>(plan);
  auto* const partial =
      static_cast<T*>(ctx.scratch((count + static_cast<size_t>(results)) * sizeof(T)));
  T* const centers = partial + count;
  reduce_parts<reduce::Max, T>(ctx, plan, nullptr, partial);
  launch_items(ctx, choose_centers<T>, results, results, plan.splits, partial, centers);
  reduce_parts<SumExp, T>(ctx, plan, centers, partial);
  launch_items(ctx, finish_logarithm<T>, results, results, plan.splits, partial, centers, out.data,
               out.dtype);
}

void logsumexp(KernelContext& ctx, const ReduceParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("logsumexp", p.axis, p.exclude, in[0].shape.ndim());
  const ReducePlan plan = make_reduce_plan(in[0], mask);
  if (pointwise::compute_for_sum(in[0].dtype) == pointwise::Compute::kFloat)
    run<float>(ctx, plan, out[0]);
  else
    run<double>(ctx, plan, out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::logsumexp>("logsumexp", {.strided_inputs = true});
});

}  // namespace mxlite::cuda
