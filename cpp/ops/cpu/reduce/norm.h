// Square roots of sums of squares without overflow or underflow.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/reduce/run.h"

namespace mxlite::reduce {

// Returns whether squares of type T may have overflowed, or may have been rounded to 0 or subnormal
// values.
template <class T>
bool out_of_range(double sum_of_squares) {
  const double least = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() /
                       std::numeric_limits<T>::epsilon();
  return sum_of_squares < least || sum_of_squares > std::numeric_limits<double>::max();
}

// Memory for computing the norms of `results` results whose squares overflow or underflow.
template <class T>
struct ScaledNorms {
  Wide<T>* totals;  // results * plan.chunks elements
  T* factors;       // one element per result

  // Writes the norms of these results, and the square roots of the sums of all other results.
  void run(const ReducePlan& plan, const TensorRef& in, Compute c, Wide<T>* sums, int64_t results) {
    accumulate<MaxAbs, T>(plan, in, c, nullptr, totals, results);
    bool finite = false;
    for (int64_t i = 0; i < results; ++i) {
      factors[i] = factor_for<T>(totals[i]);
      finite |= out_of_range<T>(sums[i]) && totals[i] != 0 && std::isfinite(totals[i]);
    }
    // If the largest absolute value of a result is 0 or infinity, this value is the norm.
    if (finite) accumulate<SumScaledSquares, T>(plan, in, c, factors, totals, results);
    for (int64_t i = 0; i < results; ++i) {
      if (!out_of_range<T>(sums[i]))
        sums[i] = std::sqrt(sums[i]);
      else
        sums[i] = finite ? std::sqrt(totals[i]) / factors[i] : totals[i];
    }
  }
};

// Returns the elements whose norm is result `index`.
inline TensorRef part_of_result(TensorRef in, const AxisMask& reduced, int64_t index) {
  int64_t offset = 0;
  for (int axis = in.shape.ndim() - 1; axis >= 0; --axis) {
    if (reduced[axis]) continue;
    offset += index % in.shape[axis] * in.strides[axis];
    index /= in.shape[axis];
    in.shape[axis] = 1;
  }
  in.data = static_cast<std::byte*>(in.data) + offset * static_cast<int64_t>(dtype_size(in.dtype));
  return in;
}

template <class T>
void root_of_floats(KernelContext& ctx, const AxisMask& reduced, const TensorRef& in,
                    const TensorRef& out, Compute c) {
  using W = Wide<T>;
  constexpr int64_t kFew = 8;  // if at most one in eight results overflows or underflows, these are
                               // computed separately
  const ReducePlan plan = make_plan(in, reduced);
  const int64_t results = out.size(), count = results * plan.chunks;
  const auto words = static_cast<size_t>(count + std::max(count, kMaxChunks));
  auto* const sums =
      static_cast<W*>(ctx.scratch(words * sizeof(W) + static_cast<size_t>(results) * sizeof(T)));
  ScaledNorms<T> scaled{sums + count, reinterpret_cast<T*>(sums + words)};
  accumulate<SumSquares, T>(plan, in, c, nullptr, sums, results);
  const auto beyond = std::count_if(sums, sums + results, &out_of_range<T>);
  if (beyond * kFew > results) {
    scaled.run(plan, in, c, sums, results);
  } else {
    for (int64_t i = 0; i < results; ++i) {
      if (out_of_range<T>(sums[i])) {
        const TensorRef part = part_of_result(in, reduced, i);
        scaled.run(make_plan(part, reduced), part, c, sums + i, 1);
      } else {
        sums[i] = std::sqrt(sums[i]);
      }
    }
  }
  pointwise::store_fn(compute_of<W>(), out.dtype)(sums, results, out.data);
}

// out = sqrt(sum of in^2) over the axes. If squares overflow or underflow, the values are read
// twice more: to find the largest value, and to sum scaled squares. If there are few such results,
// only they are computed again.
inline void root_of_squares(KernelContext& ctx, const AxisMask& reduced, const TensorRef& in,
                            const TensorRef& out) {
  if (out.size() == 0) return;
  const Compute c = pointwise::compute_for_sum(in.dtype);
  if (c == Compute::kFloat) return root_of_floats<float>(ctx, reduced, in, out, c);
  if (c == Compute::kDouble) return root_of_floats<double>(ctx, reduced, in, out, c);
  run_reduction<SumSquares>(ctx, reduced, in, out, [](auto total) {
    return static_cast<decltype(total)>(std::sqrt(static_cast<double>(total)));
  });
}

}  // namespace mxlite::reduce
