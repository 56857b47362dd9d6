#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

// Processes one tile of columns of data seen as (outer, n, inner). Sums in the wide type.
template <class W>
void run_columns(const TensorRef& in, const TensorRef& out, int64_t offset, int64_t n,
                 int64_t inner, int64_t m, bool reverse) {
  const auto load = pointwise::load_fn(in.dtype, compute_of<W>());
  const auto store = pointwise::store_fn(compute_of<W>(), out.dtype);
  const auto in_width = static_cast<int64_t>(dtype_size(in.dtype));
  const auto out_width = static_cast<int64_t>(dtype_size(out.dtype));
  W total[kTile] = {}, x[kTile];
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = offset + (reverse ? n - 1 - k : k) * inner;
    load(in.as<std::byte>() + at * in_width, 1, m, x);
    for (int64_t i = 0; i < m; ++i) total[i] = plus(total[i], x[i]);
    store(total, m, out.as<std::byte>() + at * out_width);
  }
}

// Processes one row in blocks.
template <class W>
void run_row(const TensorRef& in, const TensorRef& out, int64_t offset, int64_t n, bool reverse) {
  const auto load = pointwise::load_fn(in.dtype, compute_of<W>());
  const auto store = pointwise::store_fn(compute_of<W>(), out.dtype);
  const auto in_width = static_cast<int64_t>(dtype_size(in.dtype));
  const auto out_width = static_cast<int64_t>(dtype_size(out.dtype));
  W total = W(0), x[kTile];
  for (int64_t done = 0; done < n; done += kTile) {
    const int64_t m = std::min(kTile, n - done);
    const int64_t at = offset + (reverse ? n - done - m : done);
    load(in.as<std::byte>() + at * in_width, 1, m, x);
    if (reverse)
      for (int64_t i = m - 1; i >= 0; --i) x[i] = total = plus(total, x[i]);
    else
      for (int64_t i = 0; i < m; ++i) x[i] = total = plus(total, x[i]);
    store(x, m, out.as<std::byte>() + at * out_width);
  }
}

template <bool reverse>
void cumsum(KernelContext&, const CumsumParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const int axis = p.axis ? normalize_axis("cumsum", *p.axis, shape.ndim()) : 0;
  const int64_t outer = p.axis ? shape.product(0, axis) : 1;
  const int64_t n = p.axis ? shape[axis] : shape.size();
  const int64_t inner = p.axis ? shape.product(axis + 1, shape.ndim()) : 1;
  const int64_t tiles = (inner + kTile - 1) / kTile;
  // Sums in a type that contains both dtypes.
  const Compute c = is_floating(in[0].dtype) || is_floating(out[0].dtype)
                        ? Compute::kDouble
                        : pointwise::compute_for_sum(in[0].dtype);
  dispatch_sum(c, [&](auto t) {
    using W = Wide<decltype(t)>;
    cpu::parallel_for(outer * tiles, n * std::min(kTile, inner), [&](int64_t task) {
      const int64_t column = task % tiles * kTile;
      const int64_t offset = task / tiles * n * inner + column;
      if (inner == 1)
        run_row<W>(in[0], out[0], offset, n, reverse);
      else
        run_columns<W>(in[0], out[0], offset, n, inner, std::min(kTile, inner - column), reverse);
    });
  });
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reduce::cumsum<false>>("cumsum");
  ops.cpu_kernel<&reduce::cumsum<true>>("_cumsum_reverse");
});

}  // namespace mxlite
