// argmax and argmin: finds the extreme value first, then its position.
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/reduce/extreme.h"
#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

// Sizes of the data as an array (outer, n, inner). The search is along the axis of size n.
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
};

Split split_at(const Shape& shape, const std::optional<int64_t>& axis) {
  if (!axis) return {1, shape.size(), 1};
  const int a = normalize_axis("argmax", *axis, shape.ndim());
  return {shape.product(0, a), shape[a], shape.product(a + 1, shape.ndim())};
}

// Returns the position of the best of n > 0 adjacent values.
template <class Order, class T>
int64_t find_in_run(const T* x, int64_t n) {
  const T best = find_extreme<Order>(x, n);
  if (best != best) return find_first(x, n, [](auto v) { return v != v; });
  return find_first(x, n, [best](auto v) { return v == best; });
}

// A signed integer as wide as T, so that a vector has as many positions as values.
template <class T>
using Lane = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// Returns n values. Half-precision values are converted to float in `buffer`.
template <class T>
const ComputeType<T>* read(const T* from, int64_t n, ComputeType<T>* buffer) {
  if constexpr (std::is_same_v<T, ComputeType<T>>)
    return from;
  else
    pointwise::load_fn(DTypeOf<T>::value, Compute::kFloat)(from, 1, n, buffer);
  return buffer;
}

// Best values of up to kTile results, and the positions of these values along the axis.
template <class V>
struct Found {
  V best[kTile];
  int64_t where[kTile];
};

// Searches rows [first, last) of one result whose values are adjacent.
template <class Order, class T, class V>
void find_in_row(const T* data, int64_t first, int64_t last, int64_t result, Found<V>& found) {
  alignas(64) ComputeType<T> buffer[kRun];
  V& best = found.best[result];
  for (int64_t begin = first; begin < last; begin += kRun) {
    const int64_t n = std::min(kRun, last - begin);
    const auto* const x = read(data + begin, n, buffer);
    const int64_t place = find_in_run<Order>(x, n);
    if (begin > first && !is_better<Order>(static_cast<V>(x[place]), best)) continue;
    best = x[place];
    found.where[result] = begin + place;
  }
}

// Searches rows [first, last) of m <= kTile adjacent columns. `last - first` must fit into Lane<V>.
template <class Order, class T, class V>
void find_in_columns(const T* data, int64_t first, int64_t last, int64_t inner, int64_t m,
                     Found<V>& found) {
  alignas(64) ComputeType<T> buffer[kTile];
  alignas(64) V best[kTile];
  alignas(64) Lane<V> where[kTile];
  std::copy_n(read(data + first * inner, m, buffer), m, best);
  std::fill_n(where, m, 0);
  for (int64_t row = first + 1; row < last; ++row) {
    const auto* const x = read(data + row * inner, m, buffer);
    const auto place = static_cast<Lane<V>>(row - first);
    for (int64_t i = 0; i < m; ++i) {
      const V value = x[i];
      const bool moves = is_better<Order>(value, best[i]);
      best[i] = moves ? value : best[i];
      where[i] = moves ? place : where[i];
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    found.best[i] = best[i];
    found.where[i] = first + where[i];
  }
}

// Divides the results among threads. Also divides the rows if there are few results or very many
// rows.
template <class Order, class T>
void find_all(KernelContext& ctx, const Split& s, const TensorRef& in, const TensorRef& out) {
  // Narrow integers are compared as int32 along columns, where positions need 32 bits.
  using V = std::conditional_t<sizeof(ComputeType<T>) < 4, int32_t, ComputeType<T>>;
  constexpr int64_t kMostRows = int64_t{1} << 30, kLeastRows = 256;
  const bool rows = s.inner == 1;
  const int threads = in.size() > kParallelWork ? cpu_threads() : 1;
  const int64_t results = rows ? s.outer : s.inner;
  // Each task computes up to `width` results.
  const int64_t width = std::clamp<int64_t>(results / (2 * threads), rows ? 1 : 16, kTile);
  const int64_t tiles = (results + width - 1) / width, units = rows ? tiles : s.outer * tiles;
  int64_t chunks = (s.n + kMostRows - 1) / kMostRows;
  if (units < threads) chunks = std::max(chunks, std::min<int64_t>(threads, s.n / kLeastRows));
  const auto store = pointwise::store_fn(Compute::kInt64, out.dtype);
  const auto bytes = static_cast<int64_t>(dtype_size(out.dtype));
  Found<V>* const parts =
      chunks == 1 ? nullptr
                  : static_cast<Found<V>*>(
                        ctx.scratch(static_cast<size_t>(units * chunks) * sizeof(Found<V>)));
  cpu::parallel_for(units * chunks, in.size() / (units * chunks), [&](int64_t task) {
    const int64_t unit = task / chunks, chunk = task % chunks;
    const int64_t outer = rows ? 0 : unit / tiles, begin = unit % tiles * width;
    const int64_t m = std::min(width, results - begin);
    const int64_t first = s.n * chunk / chunks, last = s.n * (chunk + 1) / chunks;
    Found<V> own;
    Found<V>& found = parts ? parts[task] : own;
    const T* const data = in.as<T>() + (outer * s.n * s.inner + begin * (rows ? s.n : 1));
    if (rows)
      for (int64_t i = 0; i < m; ++i) find_in_row<Order>(data + i * s.n, first, last, i, found);
    else
      find_in_columns<Order>(data, first, last, s.inner, m, found);
    if (!parts) store(own.where, m, out.as<std::byte>() + (outer * s.inner + begin) * bytes);
  });
  for (int64_t unit = 0; parts && unit < units; ++unit) {
    Found<V>& total = parts[unit * chunks];
    const int64_t outer = rows ? 0 : unit / tiles, begin = unit % tiles * width;
    const int64_t m = std::min(width, results - begin);
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      const Found<V>& part = parts[unit * chunks + chunk];
      for (int64_t i = 0; i < m; ++i)
        if (is_better<Order>(part.best[i], total.best[i])) {
          total.best[i] = part.best[i];
          total.where[i] = part.where[i];
        }
    }
    store(total.where, m, out.as<std::byte>() + (outer * s.inner + begin) * bytes);
  }
}

template <class Order>
void find(KernelContext& ctx, const Split& s, const TensorRef& in, const TensorRef& out) {
  if (out.size() == 0) return;
  dispatch_dtype(in.dtype, [&]<class T>(T) {
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    find_all<Order, Stored>(ctx, s, in, out);
  });
}

template <class Order>
void arg(KernelContext& ctx, const ArgParams& p, Inputs in, Outputs out) {
  find<Order>(ctx, split_at(in[0].shape, p.axis), in[0], out[0]);
}

void channel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  find<Largest>(ctx, split_at(in[0].shape, 1), in[0], out[0]);
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&reduce::arg<reduce::Largest>>("argmax");
  ops.cpu_kernel<&reduce::arg<reduce::Smallest>>("argmin");
  ops.cpu_kernel<&reduce::arg<reduce::Largest>>("_npi_argmax");
  ops.cpu_kernel<&reduce::arg<reduce::Smallest>>("_npi_argmin");
  ops.cpu_kernel<&reduce::channel>("argmax_channel");
});

}  // namespace mxlite
