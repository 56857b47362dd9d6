// Two passes: the largest value, then the sum of exp(value - largest).
#include <cmath>

#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

struct SumExp : Adding {
  template <class T>
  static T step(T total, T x, T center) {
    return total + std::exp(x - center);
  }
};

template <class T>
void run(KernelContext& ctx, const AxisMask& mask, const TensorRef& in, const TensorRef& out) {
  const int64_t results = out.size();
  const ReducePlan plan = make_plan(in, mask);
  const Compute c = pointwise::compute_for_sum(in.dtype);
  const auto count = static_cast<size_t>(results * plan.chunks);
  auto* const totals =
      static_cast<double*>(ctx.scratch(count * 8 + static_cast<size_t>(results) * sizeof(T)));
  T* const centers = reinterpret_cast<T*>(totals + count);
  accumulate<Max, T>(plan, in, c, nullptr, totals, results);
  for (int64_t i = 0; i < results; ++i)  // differences of infinities are NaN
    centers[i] = std::isfinite(totals[i]) ? static_cast<T>(totals[i]) : T(0);
  accumulate<SumExp, T>(plan, in, c, centers, totals, results);
  for (int64_t i = 0; i < results; ++i)
    totals[i] = static_cast<double>(centers[i]) + std::log(totals[i]);
  pointwise::store_fn(Compute::kDouble, out.dtype)(totals, results, out.data);
}

void logsumexp(KernelContext& ctx, const ReduceParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("logsumexp", p.axis, p.exclude, in[0].shape.ndim());
  if (pointwise::compute_for_sum(in[0].dtype) == Compute::kFloat)
    run<float>(ctx, mask, in[0], out[0]);
  else
    run<double>(ctx, mask, in[0], out[0]);
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reduce::logsumexp>("logsumexp", {.strided_inputs = true});
});

}  // namespace mxlite
