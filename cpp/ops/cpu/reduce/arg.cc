// argmax and argmin: finds the extreme value first, then its position.
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

// Sizes of data seen as (outer, n, inner).
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
};

Split split_at(const Shape& shape, const std::optional<int64_t>& axis) {
  if (!axis) return {1, shape.size(), 1};
  const int a = normalize_axis("argmax", *axis, shape.ndim());
  return {shape.product(0, a), shape[a], shape.product(a + 1, shape.ndim())};
}

template <class R, class T>
int64_t find_in_row(const Source<T>& source, int64_t offset, int64_t n) {
  alignas(64) T buffer[kRun];
  T best = R::template start<T>();
  int64_t where = 0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t m = std::min(kRun, n - begin);
    const T* x = source.read(offset + begin, 1, m, buffer);
    const T extreme = static_cast<T>(reduce_run<R>(x, m, T(0)));
    const bool better = begin == 0 || (R::join(best, extreme) != best && best == best);
    if (!better) continue;
    best = extreme;
    for (int64_t i = 0; i < m; ++i) {
      if (x[i] != extreme && extreme == extreme) continue;
      if (extreme != extreme && x[i] == x[i]) continue;
      where = begin + i;
      break;
    }
  }
  return where;
}

// Processes one tile of columns; `best` and `where` are updated row by row.
template <class R, class T>
void find_in_columns(const Source<T>& source, int64_t offset, const Split& s, int64_t m,
                     int64_t* where) {
  alignas(64) T buffer[kTile], best[kTile];
  std::copy_n(source.read(offset, 1, m, buffer), m, best);
  std::fill_n(where, m, 0);
  for (int64_t row = 1; row < s.n; ++row) {
    const T* x = source.read(offset + row * s.inner, 1, m, buffer);
    for (int64_t i = 0; i < m; ++i) {
      const bool better = R::join(best[i], x[i]) != best[i] && best[i] == best[i];
      where[i] = better ? row : where[i];
      best[i] = better ? x[i] : best[i];
    }
  }
}

template <class R>
void find(const Split& s, const TensorRef& in, const TensorRef& out) {
  if (out.size() == 0) return;
  const Compute c = pointwise::compute_for_sum(in.dtype);
  const auto store = pointwise::store_fn(Compute::kInt64, out.dtype);
  const auto width = static_cast<int64_t>(dtype_size(out.dtype));
  dispatch_sum(c, [&](auto t) {
    using T = decltype(t);
    const Source<T> source(in, c);
    const int64_t tiles = (s.inner + kTile - 1) / kTile;
    const int threads = in.size() > kParallelWork ? cpu_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t task = 0; task < s.outer * tiles; ++task) {
      const int64_t outer = task / tiles, column = task % tiles * kTile;
      const int64_t m = std::min(kTile, s.inner - column);
      const int64_t offset = outer * s.n * s.inner + column;
      int64_t where[kTile];
      if (s.inner == 1)
        where[0] = find_in_row<R, T>(source, offset, s.n);
      else
        find_in_columns<R, T>(source, offset, s, m, where);
      store(where, m, out.as<std::byte>() + (outer * s.inner + column) * width);
    }
  });
}

template <class R>
void arg(KernelContext&, const ArgParams& p, Inputs in, Outputs out) {
  find<R>(split_at(in[0].shape, p.axis), in[0], out[0]);
}

void channel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  find<Max>(split_at(in[0].shape, 1), in[0], out[0]);
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reduce::arg<reduce::Max>>("argmax");
  ops.cpu_kernel<&reduce::arg<reduce::Min>>("argmin");
  ops.cpu_kernel<&reduce::arg<reduce::Max>>("_npi_argmax");
  ops.cpu_kernel<&reduce::arg<reduce::Min>>("_npi_argmin");
  ops.cpu_kernel<&reduce::channel>("argmax_channel");
});

}  // namespace mxlite
