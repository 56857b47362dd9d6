#include "cpp/ops/cpu/accumulate_rows.h"

#include <algorithm>
#include <type_traits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"

namespace mxlite::cpu {
namespace {

// Sums the n rows of src listed in `group` in the compute type, in strips that fit into the L1
// cache.
template <class T>
void sum_group(const RowAccumulation& a, const T* src, const int64_t* group, int64_t n, T* dst) {
  using Sum = ComputeType<T>;
  constexpr int64_t kStrip = 512;
  Sum sums[kStrip];
  for (int64_t j0 = 0; j0 < a.inner; j0 += kStrip) {
    const int64_t width = std::min(kStrip, a.inner - j0);
    std::fill_n(sums, width, Sum(0));
    for (int64_t i = 0; i < n; ++i) {
      const T* const row = src + group[i] * a.inner + j0;
      for (int64_t j = 0; j < width; ++j) sums[j] += static_cast<Sum>(row[j]);
    }
    for (int64_t j = 0; j < width; ++j) dst[j0 + j] = static_cast<T>(sums[j]);
  }
}

// Sorts positions stably by row. order[0..count) gets the positions, order[count..) their rows.
void group_by_row(const RowAccumulation& a) {
  int64_t* const order = a.order;
  for (int64_t i = 0; i < a.count; ++i) order[i] = i;
  std::sort(order, order + a.count, [rows = a.rows](int64_t x, int64_t y) {
    return rows[x] != rows[y] ? rows[x] < rows[y] : x < y;
  });
  for (int64_t i = 0; i < a.count; ++i) order[a.count + i] = a.rows[order[i]];
}

template <class T>
void accumulate(const RowAccumulation& a, const T* src, T* dst) {
  const int64_t* const order = a.order;
  const int64_t* const sorted_rows = order + a.count;
  const int64_t dst_size = a.num_rows * a.inner;
  // Threads get ranges of the sorted list. Range ends are moved to the beginning of a new row.
  const auto border = [&](int64_t i) {
    while (i > 0 && i < a.count && sorted_rows[i] == sorted_rows[i - 1]) ++i;
    return i;
  };
  zero_fill(dst, static_cast<size_t>(a.outer * dst_size) * sizeof(T));
  parallel_ranges(a.count, a.outer * a.inner, [&](int64_t begin, int64_t range_end, int) {
    const int64_t first = border(begin), last = border(range_end);
    for (int64_t o = 0; o < a.outer; ++o)
      for (int64_t i = first; i < last;) {
        int64_t end = i + 1;
        while (end < a.count && sorted_rows[end] == sorted_rows[i]) ++end;
        sum_group(a, src + o * a.count * a.inner, order + i, end - i,
                  dst + o * dst_size + sorted_rows[i] * a.inner);
        i = end;
      }
  });
}

// Adds rows in place, for types that need no intermediate rounding. Every thread reads all row
// numbers and adds the rows that lie in its part of the destination.
template <class T>
void accumulate_direct(const RowAccumulation& a, const T* src, T* dst) {
  const auto work = static_cast<double>(a.outer * std::max(a.count, a.num_rows) * a.inner);
  run_parts(a.num_rows, work * kElementNanoseconds, [&](int64_t first_row, int64_t last_row) {
    const int64_t inner = a.inner;
    for (int64_t o = 0; o < a.outer; ++o) {
      T* const to = dst + o * a.num_rows * inner;
      const T* from = src + o * a.count * inner;
      std::fill(to + first_row * inner, to + last_row * inner, T(0));
      for (int64_t i = 0; i < a.count; ++i, from += inner) {
        const int64_t row = a.rows[i];
        if (row < first_row || row >= last_row) continue;
        T* const sum = to + row * inner;
        if (inner == 1) {
          *sum = static_cast<T>(*sum + *from);
          continue;
        }
#pragma omp simd
        for (int64_t j = 0; j < inner; ++j) sum[j] = static_cast<T>(sum[j] + from[j]);
      }
    }
  });
}

}  // namespace

void accumulate_rows(const RowAccumulation& a, const void* src, void* dst) {
  dispatch_dtype(a.dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, ComputeType<T>>) {
      accumulate_direct(a, static_cast<const T*>(src), static_cast<T*>(dst));
    } else {
      group_by_row(a);
      accumulate(a, static_cast<const T*>(src), static_cast<T*>(dst));
    }
  });
}

}  // namespace mxlite::cpu
