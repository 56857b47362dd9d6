#include "cpp/ops/cuda/reduce/channel_sum.h"
#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class P>
void mean(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p, in[0].shape.ndim());
  run_reduction<reduce::Sum>(ctx, mask, in[0], out[0],
                             {.divisor = reduced_size(in[0].shape, mask), .mean = true});
}

// Two passes, in which values are scaled so that the largest is about 1 and squares neither
// overflow nor underflow.
template <class T>
void root_of_squares(KernelContext& ctx, const AxisMask& mask, const TensorRef& in,
                     const TensorRef& out) {
  const ReducePlan plan = make_reduce_plan(in, mask);
  const size_t count = partial_count<T>(plan);
  auto* const partial =
      static_cast<T*>(ctx.scratch((count + static_cast<size_t>(out.size())) * sizeof(T)));
  T* const factors = partial + count;
  TensorRef none = out;
  none.data = nullptr;
  cuda::reduce<reduce::MaxAbs, T>(ctx, plan, nullptr, partial, {.to_factor = true}, none, factors);
  cuda::reduce<reduce::SumScaledSquares, T>(ctx, plan, factors, partial,
                                            {.root = true, .by_center = true}, out);
}

void norm(KernelContext& ctx, const NormParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("norm", p.axis, false, in[0].shape.ndim());
  if (p.ord == 1) return run_reduction<reduce::SumAbs>(ctx, mask, in[0], out[0], {});
  switch (pointwise::compute_for_sum(in[0].dtype)) {
    case Compute::kFloat:
      return root_of_squares<float>(ctx, mask, in[0], out[0]);
    case Compute::kDouble:
      return root_of_squares<double>(ctx, mask, in[0], out[0]);
    default:
      run_reduction<reduce::SumSquares>(ctx, mask, in[0], out[0], {.root = true});
  }
}

// Uses two passes, because a difference of sums loses the variance if the mean is large.
void moments(KernelContext& ctx, const MomentsParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("moments", p.axes, false, in[0].shape.ndim());
  const int64_t results = out[0].size();
  if (results == 0) return;
  const ReducePlan plan = make_reduce_plan(in[0], mask);
  const Finish finish{.divisor = reduced_size(in[0].shape, mask), .mean = true};
  const auto run = [&]<class T>(T) {
    const size_t count = partial_count<T>(plan);
    auto* partial =
        static_cast<T*>(ctx.scratch((count + static_cast<size_t>(results)) * sizeof(T)));
    T* const centers = partial + count;
    cuda::reduce<reduce::Sum, T>(ctx, plan, nullptr, partial, finish, out[0], centers);
    cuda::reduce<reduce::SumSquares, T>(ctx, plan, centers, partial, finish, out[1]);
  };
  if (pointwise::compute_for_sum(in[0].dtype) == Compute::kFloat)
    run(float{});
  else
    run(double{});
}

}  // namespace

void channel_sum(KernelContext& ctx, const TensorRef& in, int axis, const TensorRef& out) {
  AxisMask mask{};
  for (int i = 0; i < in.shape.ndim(); ++i) mask[static_cast<size_t>(i)] = i != axis;
  run_reduction<reduce::Sum>(ctx, mask, in, out, {});
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Sum>>("sum", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::NanSum>>("nansum", kStrided);
  ops.cuda_kernel<&cuda::mean<ReduceParams>>("mean", kStrided);
  ops.cuda_kernel<&cuda::mean<NumpyReduceParams>>("_npi_mean", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Sum, NumpyReduceParams>>("_np_sum", kStrided);
  ops.cuda_kernel<&cuda::norm>("norm", kStrided);
  ops.cuda_kernel<&cuda::moments>("moments", kStrided);
});

}  // namespace mxlite::cuda
