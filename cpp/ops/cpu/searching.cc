#include "cpp/ops/cpu/searching.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/ordering.h"

namespace mxlite::cpu {
namespace {

int64_t first_of_part(int64_t size, int64_t part, size_t parts) {
  return size * part / static_cast<int64_t>(parts);
}

// Calls fn(T{}) with the type of integers or bools.
void dispatch_integer(DType dtype, auto&& fn) {
  dispatch_dtype(dtype, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>)
      fn(T{});
    else
      fail(ErrorKind::kDType, "values must be integers, got dtype ", dtype_name(dtype));
  });
}

// Writes the positions in [begin, end) of elements that are not 0. Stops after `count` of them, so
// that it writes nothing to to[count], not even the position of a 0.
template <class T>
void write_positions(const T* values, int64_t begin, int64_t end, int64_t count, int64_t* to) {
  using Value = ComputeType<T>;
  const int64_t* const last = to + count;
  for (int64_t i = begin; i < end && to < last; ++i) {
    *to = i;
    to += static_cast<Value>(values[i]) != Value(0);
  }
}

template <class T>
int64_t count_run(const T* values, int64_t size) {
  using Value = ComputeType<T>;
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += static_cast<Value>(values[i]) != Value(0);
  return count;
}

}  // namespace

std::vector<int64_t> count_nonzero(const TensorRef& values) {
  constexpr double kNanoseconds = 1.0;  // time of one element in write_nonzero
  const int64_t size = values.size();
  const int threads = threads_for(static_cast<double>(size) * kNanoseconds, size);
  std::vector<int64_t> counts(static_cast<size_t>(std::max(threads, 1)));
  dispatch_dtype(values.dtype, [&]<class T>(T) {
    run_shares(static_cast<int>(counts.size()), [&](int64_t part) {
      const int64_t begin = first_of_part(size, part, counts.size());
      const int64_t end = first_of_part(size, part + 1, counts.size());
      counts[static_cast<size_t>(part)] = count_run(values.as<T>() + begin, end - begin);
    });
  });
  return counts;
}

void write_nonzero(const TensorRef& values, std::span<const int64_t> counts,
                   std::span<int64_t* const> axes) {
  const int64_t size = values.size();
  const auto ndim = static_cast<int>(axes.size());
  const int64_t inner = ndim > 1 ? values.shape[ndim - 1] : size;
  dispatch_dtype(values.dtype, [&]<class T>(T) {
    run_shares(static_cast<int>(counts.size()), [&](int64_t part) {
      const auto own = counts.subspan(0, static_cast<size_t>(part));
      int64_t at = std::accumulate(own.begin(), own.end(), int64_t{0});
      const int64_t last = at + counts[static_cast<size_t>(part)];
      const T* const data = values.as<T>();
      const int64_t end = first_of_part(size, part + 1, counts.size());
      int64_t begin = first_of_part(size, part, counts.size());
      while (begin < end) {  // one row, or the part's share of it
        const int64_t row = begin / inner, stop = std::min(end, (row + 1) * inner);
        // Limited, because another thread may have written to the array since it was counted.
        const int64_t count = std::min(count_run(data + begin, stop - begin), last - at);
        write_positions(data + row * inner, begin - row * inner, stop - row * inner, count,
                        axes[axes.size() - 1] + at);
        int64_t rest = row;
        for (int axis = ndim - 2; axis >= 0; --axis) {
          std::fill_n(axes[static_cast<size_t>(axis)] + at, count, rest % values.shape[axis]);
          rest /= values.shape[axis];
        }
        at += count;
        begin = stop;
      }
    });
  });
}

Extremes integer_extremes(const TensorRef& values) {
  Extremes found{};
  dispatch_integer(values.dtype, [&]<class T>(T) {
    const T* const data = values.as<T>();
    T low = data[0], high = data[0];
    for (int64_t i = 1; i < values.size(); ++i) {
      low = std::min(low, data[i]);
      high = std::max(high, data[i]);
    }
    const auto number = [](auto value) -> int64_t {
      if constexpr (std::is_same_v<T, uint64_t>)  // larger numbers count as the largest int64
        return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
      else
        return static_cast<int64_t>(value);
    };
    found = {number(low), number(high)};
  });
  return found;
}

void count_integers(const TensorRef& values, int64_t bins, int64_t* counts) {
  constexpr double kNanoseconds = 1.0;  // time of one element
  // Successive elements use different tables, because a counter that has just changed is slow.
  constexpr int64_t kTables = 2;
  const int64_t size = values.size();
  std::fill_n(counts, bins, 0);
  // Skips other values, which another Python thread may have written since `bins` was chosen.
  const auto count = [bins](int64_t* table, auto value) {
    if (const auto bin = static_cast<uint64_t>(value); bin < static_cast<uint64_t>(bins))
      ++table[bin];
  };
  dispatch_integer(values.dtype, [&]<class T>(T) {
    const T* const data = values.as<T>();
    if (bins * 8 > size) {
      for (int64_t i = 0; i < size; ++i) count(counts, data[i]);
      return;
    }
    const int threads = threads_for(static_cast<double>(size) * kNanoseconds);
    std::vector<int64_t> tables(static_cast<size_t>(threads * kTables * bins));
    run_shares(threads, [&](int64_t part) {
      int64_t* const own = tables.data() + part * kTables * bins;
      const int64_t end = size * (part + 1) / threads;
      for (int64_t i = size * part / threads; i < end; ++i)
        count(own + i % kTables * bins, data[i]);
    });
    for (int64_t i = 0; i < threads * kTables * bins; ++i)
      counts[i % bins] += tables[static_cast<size_t>(i)];
  });
}

void search_sorted(const TensorRef& sorted, const TensorRef& values, bool right, int64_t* places) {
  constexpr int64_t kTogether = 8;  // the steps of several searches overlap
  const int64_t count = sorted.size(), size = values.size();
  dispatch_dtype(values.dtype, [&]<class T>(T) {
    using Key = KeyOf<T>;
    std::vector<Key> keys(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) keys[static_cast<size_t>(i)] = order_key(sorted.as<T>()[i]);
    const auto search = [&](const T* given, int64_t* to, int64_t together) {
      std::array<Key, kTogether> wanted{};
      std::array<const Key*, kTogether> at{};
      for (int64_t q = 0; q < kTogether; ++q) {
        wanted[q] = order_key(given[std::min(q, together - 1)]);
        at[q] = keys.data();
      }
      const auto is_before = [&](Key key, Key value) { return right ? key <= value : key < value; };
      int64_t left = count;
      for (; left > 1; left -= left / 2)
        for (int64_t q = 0; q < kTogether; ++q)
          at[q] += is_before(at[q][left / 2 - 1], wanted[q]) ? left / 2 : 0;
      for (int64_t q = 0; q < together; ++q)
        to[q] = at[q] - keys.data() + (left == 1 && is_before(*at[q], wanted[q]));
    };
    parallel_ranges((size + kTogether - 1) / kTogether, 256, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kTogether;
        search(values.as<T>() + first, places + first, std::min(kTogether, size - first));
      }
    });
  });
}

}  // namespace mxlite::cpu
