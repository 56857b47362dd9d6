// Square roots of sums of squares that neither overflow nor vanish.
#pragma once
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/reduce/run.h"

namespace mxlite::reduce {

// Whether squares of type T may have overflowed, or have been rounded to 0 or to subnormal values.
template <class T>
bool out_of_range(double sum_of_squares) {
  const double least = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() /
                       std::numeric_limits<T>::epsilon();
  return sum_of_squares < least || sum_of_squares > std::numeric_limits<double>::max();
}

template <class T>
void root_of_floats(KernelContext& ctx, const ReducePlan& plan, const TensorRef& in,
                    const TensorRef& out, Compute c) {
  using W = Wide<T>;
  const int64_t results = out.size(), count = results * plan.chunks;
  const size_t bytes = static_cast<size_t>(count) * sizeof(W);
  auto* const totals =
      static_cast<W*>(ctx.scratch(bytes + static_cast<size_t>(results) * sizeof(T)));
  accumulate<SumSquares, T>(plan, in, c, nullptr, totals, results);
  if (std::any_of(totals, totals + results, [](W total) { return out_of_range<T>(total); })) {
    auto* const factors = reinterpret_cast<T*>(totals + count);
    accumulate<MaxAbs, T>(plan, in, c, nullptr, totals, results);
    for (int64_t i = 0; i < results; ++i) factors[i] = factor_for<T>(totals[i]);
    accumulate<SumScaledSquares, T>(plan, in, c, factors, totals, results);
    for (int64_t i = 0; i < results; ++i) totals[i] = std::sqrt(totals[i]) / factors[i];
  } else {
    for (int64_t i = 0; i < results; ++i) totals[i] = std::sqrt(totals[i]);
  }
  pointwise::store_fn(compute_of<W>(), out.dtype)(totals, results, out.data);
}

// out = sqrt(sum of in^2) over the axes. Values whose squares leave the range of the type are
// scaled in a second and third pass.
inline void root_of_squares(KernelContext& ctx, const AxisMask& reduced, const TensorRef& in,
                            const TensorRef& out) {
  if (out.size() == 0) return;
  const Compute c = pointwise::compute_for_sum(in.dtype);
  if (c == Compute::kFloat) return root_of_floats<float>(ctx, make_plan(in, reduced), in, out, c);
  if (c == Compute::kDouble) return root_of_floats<double>(ctx, make_plan(in, reduced), in, out, c);
  run_reduction<SumSquares>(ctx, reduced, in, out, [](auto total) {
    return static_cast<decltype(total)>(std::sqrt(static_cast<double>(total)));
  });
}

}  // namespace mxlite::reduce
