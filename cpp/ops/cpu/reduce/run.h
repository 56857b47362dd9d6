// Kernels of reductions: plan, accumulate, finish and store.
#pragma once
#include "cpp/ops/cpu/reduce/accumulate.h"
#include "cpp/ops/cpu/reduce/reducers.h"

namespace mxlite::reduce {

using pointwise::Compute;

decltype(auto) dispatch_sum(Compute c, auto&& fn) {
  switch (c) {
    case Compute::kFloat:
      return fn(float{});
    case Compute::kDouble:
      return fn(double{});
    case Compute::kUInt64:
      return fn(uint64_t{});
    default:
      return fn(int64_t{});
  }
}

template <class W>
constexpr Compute compute_of() {
  if constexpr (std::is_same_v<W, double>)
    return Compute::kDouble;
  else if constexpr (std::is_same_v<W, float>)
    return Compute::kFloat;
  else if constexpr (std::is_same_v<W, uint64_t>)
    return Compute::kUInt64;
  else
    return Compute::kInt64;
}

// out = finish(total) over the axes. `finish` maps the wide type to itself.
template <class R, class Finish>
void run_reduction(KernelContext& ctx, const AxisMask& reduced, const TensorRef& in,
                   const TensorRef& out, Finish&& finish) {
  const int64_t results = out.size();
  if (results == 0) return;
  const Compute c = pointwise::compute_for_sum(in.dtype);
  dispatch_sum(c, [&](auto t) {
    using T = decltype(t);
    using W = Wide<T>;
    const ReducePlan plan = make_plan(in, reduced);
    W few[16];
    const auto count = static_cast<size_t>(results * plan.chunks);
    W* totals = count <= std::size(few) ? few : static_cast<W*>(ctx.scratch(count * sizeof(W)));
    accumulate<R, T>(plan, in, c, nullptr, totals, results);
    for (int64_t i = 0; i < results; ++i) totals[i] = static_cast<W>(finish(totals[i]));
    pointwise::store_fn(compute_of<W>(), out.dtype)(totals, results, out.data);
  });
}

}  // namespace mxlite::reduce
