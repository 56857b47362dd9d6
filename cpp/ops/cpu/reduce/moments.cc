#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

// Uses two passes, because a difference of sums loses the variance if the mean is large.
void moments(KernelContext& ctx, const MomentsParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("moments", p.axes, false, in[0].shape.ndim());
  const int64_t results = out[0].size();
  if (results == 0) return;
  const Compute c = pointwise::compute_for_sum(in[0].dtype);
  const auto finish = [&](auto t) {
    using T = decltype(t);
    const ReducePlan plan = make_plan(in[0], mask);
    const double n = static_cast<double>(reduced_size(in[0].shape, mask));
    const auto count = static_cast<size_t>(results * plan.chunks);
    double* totals =
        static_cast<double*>(ctx.scratch(count * 8 + static_cast<size_t>(results) * sizeof(T)));
    T* centers = reinterpret_cast<T*>(totals + count);
    const auto store = [&](const TensorRef& to) {
      for (int64_t i = 0; i < results; ++i) totals[i] /= n;
      pointwise::store_fn(Compute::kDouble, to.dtype)(totals, results, to.data);
    };
    accumulate<Sum, T>(plan, in[0], c, nullptr, totals, results);
    store(out[0]);
    for (int64_t i = 0; i < results; ++i) centers[i] = static_cast<T>(totals[i]);
    accumulate<SumSquares, T>(plan, in[0], c, centers, totals, results);
    store(out[1]);
  };
  if (c == Compute::kFloat)
    finish(float{});
  else
    finish(double{});
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reduce::moments>("moments", {.strided_inputs = true});
});

}  // namespace mxlite
