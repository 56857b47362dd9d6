// Runs a reducer along a plan. A reducer is
//   struct R { template <class T> static T start(); static T step(T total, T x, T center);
//              template <class W> static W join(W, W);
//              optional: static bool decides(W total): whether further values change nothing;
//              static W reduce(const T* x, int64_t n): the result of a run }
// Runs are added in the compute type T, their results in the wider type W (double for float).
#pragma once
#include <algorithm>

#include "cpp/core/parallel.h"
#include "cpp/ops/cpu/reduce/extreme.h"
#include "cpp/ops/cpu/reduce/plan.h"
#include "cpp/ops/cpu/reduce/reducers.h"

namespace mxlite::reduce {

// Type of the results of runs. Bools are reduced as bytes; their counts need 64 bits.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double,
                                std::conditional_t<std::is_same_v<T, uint8_t>, int64_t, T>>;

constexpr int64_t kLanes = 32;  // four vectors of float hide the latency of an addition
constexpr int64_t kLongRun = 128;
constexpr int64_t kWiden = 1024;  // each lane adds 32 values before it is widened
// Reductions of columns combine this many rows in T before they widen the results.
constexpr int64_t kRowsPerJoin = 128;

template <class R, int64_t lane_count, class T>
Wide<T> reduce_lanes(const T* x, int64_t n, T center) {
  T lanes[lane_count];
  std::fill_n(lanes, lane_count, R::template start<T>());
  int64_t i = 0;
  for (; i + lane_count <= n; i += lane_count)
    for (int64_t k = 0; k < lane_count; ++k) lanes[k] = R::step(lanes[k], x[i + k], center);
  for (int64_t half = lane_count / 2; half >= 4; half /= 2)
    for (int64_t k = 0; k < half; ++k) lanes[k] = R::join(lanes[k], lanes[k + half]);
  Wide<T> total = R::template start<Wide<T>>();
  for (int64_t k = 0; k < 4; ++k) total = R::join(total, static_cast<Wide<T>>(lanes[k]));
  for (; i < n; ++i)
    total = R::join(total, static_cast<Wide<T>>(R::step(R::template start<T>(), x[i], center)));
  return total;
}

template <class R>
struct OrderOf;
template <>
struct OrderOf<Max> : Largest {};
template <>
struct OrderOf<Min> : Smallest {};

template <class R, class T>
Wide<T> reduce_run(const T* x, int64_t n, T center) {
  if constexpr (requires { R::reduce(x, n); })
    return R::reduce(x, n);
  else if constexpr (requires { sizeof(OrderOf<R>); })
    return n ? find_extreme<OrderOf<R>>(x, n) : R::template start<T>();
  if (n < 8) {
    Wide<T> few = R::template start<Wide<T>>();
    for (int64_t i = 0; i < n; ++i)
      few = R::join(few, static_cast<Wide<T>>(R::step(R::template start<T>(), x[i], center)));
    return few;
  }
  if (n < kLongRun) return reduce_lanes<R, 8>(x, n, center);
  Wide<T> total = R::template start<Wide<T>>();
  for (int64_t i = 0; i < n; i += kWiden)
    total = R::join(total, reduce_lanes<R, kLanes>(x + i, std::min(kWiden, n - i), center));
  return total;
}

template <class T>
struct Source {
  const std::byte* data;
  int64_t width;
  pointwise::LoadFn load;
  bool stored;  // whether memory contains values of type T
  Source(const TensorRef& in, pointwise::Compute c)
      : data(static_cast<const std::byte*>(in.data)),
        width(static_cast<int64_t>(dtype_size(in.dtype))),
        load(pointwise::load_fn(in.dtype, c)),
        stored(pointwise::stored_as(in.dtype, c)) {}
  // Returns n values from `offset` on, in place or copied to `buffer`.
  const T* read(int64_t offset, int64_t stride, int64_t n, T* buffer) const {
    if (stored && stride == 1) return reinterpret_cast<const T*>(data + offset * width);
    load(data + offset * width, stride, n, buffer);
    return buffer;
  }
};

// Bools are read as the bytes that they are stored in.
template <>
struct Source<uint8_t> {
  const uint8_t* data;
  Source(const TensorRef& in, pointwise::Compute) : data(in.as<uint8_t>()) {}
  const uint8_t* read(int64_t offset, int64_t stride, int64_t n, uint8_t* buffer) const {
    if (stride == 1) return data + offset;
    for (int64_t i = 0; i < n; ++i) buffer[i] = data[offset + i * stride];
    return buffer;
  }
};

// Reduces the steps [first, last) of the plan into one result.
template <class R, class T>
Wide<T> reduce_rows(const ReducePlan& plan, const Source<T>& source, int64_t unit, int64_t first,
                    int64_t last, T center) {
  alignas(64) T buffer[kRun];
  const int64_t base = plan.kept.offset(unit);
  Wide<T> total = R::template start<Wide<T>>();
  for (int64_t step = first; step < last; ++step) {
    const int64_t begin = step % plan.pieces * kRun;
    const int64_t n = std::min(kRun, plan.run - begin);
    const int64_t offset = base + plan.reduced.offset(step / plan.pieces) + begin * plan.run_stride;
    total =
        R::join(total, reduce_run<R>(source.read(offset, plan.run_stride, n, buffer), n, center));
    if constexpr (requires { R::decides(total); })
      if (R::decides(total)) break;
  }
  return total;
}

// Reduces steps [first, last) of one tile of results. `center` has one value per result, or is
// null.
template <class R, class T>
void reduce_columns(const ReducePlan& plan, const Source<T>& source, int64_t unit, int64_t first,
                    int64_t last, const T* center, Wide<T>* total) {
  alignas(64) T buffer[kTile], sums[kTile], centers[kTile];
  const int64_t begin = unit % plan.pieces * kTile;
  const int64_t n = std::min(kTile, plan.run - begin);
  const int64_t base = plan.kept.offset(unit / plan.pieces) + begin * plan.run_stride;
  const int64_t columns = n * plan.fold;
  std::fill_n(centers, columns, T(0));
  if (center)
    for (int64_t i = 0; i < columns; ++i) centers[i] = center[i % n];
  std::fill_n(total, n, R::template start<Wide<T>>());
  std::fill_n(sums, columns, R::template start<T>());
  int64_t rows = 0;
  const auto widen = [&] {
    for (int64_t k = 0; k < columns; k += n)
      for (int64_t i = 0; i < n; ++i)
        total[i] = R::join(total[i], static_cast<Wide<T>>(sums[k + i]));
    std::fill_n(sums, columns, R::template start<T>());
    rows = 0;
  };
  const int inner = plan.reduced.count - 1;
  for (int64_t step = first; step < last;) {
    // Rows that are folded must be adjacent along the innermost reduced axis.
    int64_t together = 1;
    if (plan.fold > 1) {
      const int64_t length = plan.reduced.size[inner];
      together = std::min({plan.fold, last - step, length - step % length});
    }
    const int64_t m = n * together;
    const T* x = source.read(base + plan.reduced.offset(step), plan.run_stride, m, buffer);
    for (int64_t i = 0; i < m; ++i) sums[i] = R::step(sums[i], x[i], centers[i]);
    step += together;
    if (++rows == kRowsPerJoin) widen();
  }
  widen();
}

// Writes one wide total per result to `totals`, which has room for results * chunks values.
template <class R, class T>
void accumulate(const ReducePlan& plan, const TensorRef& in, pointwise::Compute c, const T* centers,
                Wide<T>* totals, int64_t results) {
  const Source<T> source(in, c);
  const int64_t tasks = plan.units * plan.chunks;
  const auto run = [&](int64_t task) {
    const int64_t unit = task / plan.chunks, chunk = task % plan.chunks;
    const int64_t first = plan.steps * chunk / plan.chunks;
    const int64_t last = plan.steps * (chunk + 1) / plan.chunks;
    if (plan.rows) {
      totals[chunk * results + unit] =
          reduce_rows<R, T>(plan, source, unit, first, last, centers ? centers[unit] : T(0));
    } else {
      const int64_t result = unit / plan.pieces * plan.run + unit % plan.pieces * kTile;
      reduce_columns<R, T>(plan, source, unit, first, last, centers ? centers + result : nullptr,
                           totals + chunk * results + result);
    }
  };
  share_range(tasks, 1, in.size() / std::max<int64_t>(1, tasks),
              [&](int64_t first, int64_t last, int) {
                for (int64_t task = first; task < last; ++task) run(task);
              });
  for (int64_t chunk = 1; chunk < plan.chunks; ++chunk)
    for (int64_t i = 0; i < results; ++i)
      totals[i] = R::join(totals[i], totals[chunk * results + i]);
}

}  // namespace mxlite::reduce
