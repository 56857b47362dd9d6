// Groups positions of a row-sparse gradient by row.
#pragma once
#include <algorithm>
#include <cstdint>

namespace mxlite::sparse {

// Writes the positions whose row lies in [0, rows) to `order`, sorted by row and then by position.
// Returns their number.
inline int64_t order_by_row(const int64_t* indices, int64_t count, int64_t rows, int64_t* order) {
  int64_t n = 0;
  bool ascending = true;
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || indices[i] >= rows) continue;
    ascending &= n == 0 || indices[order[n - 1]] <= indices[i];
    order[n++] = i;
  }
  if (!ascending)
    std::sort(order, order + n, [indices](int64_t x, int64_t y) {
      return indices[x] != indices[y] ? indices[x] < indices[y] : x < y;
    });
  return n;
}

// Calls fn(row, first, last) for the groups of `order` that begin in [begin, end).
void for_each_group(const int64_t* indices, const int64_t* order, int64_t n, int64_t begin,
                    int64_t end, auto&& fn) {
  const auto same = [&](int64_t i) { return indices[order[i]] == indices[order[i - 1]]; };
  while (begin > 0 && begin < end && same(begin)) ++begin;
  for (int64_t i = begin; i < end;) {
    int64_t last = i + 1;
    while (last < n && same(last)) ++last;
    fn(indices[order[i]], i, last);
    i = last;
  }
}

}  // namespace mxlite::sparse
