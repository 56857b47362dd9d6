// Searches in values of contiguous arrays. Python waits for the results, because the size of an
// array, or whether to raise an error, depends on them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Returns how many elements of equal parts of the flattened array are not 0. There is one part for
// each thread.
std::vector<int64_t> count_nonzero(const TensorRef& values);
// Writes the coordinates of these elements: axes[i] receives those along axis i. `counts` are those
// of count_nonzero. With one pointer, the array counts as flattened.
void write_nonzero(const TensorRef& values, std::span<const int64_t> counts,
                   std::span<int64_t* const> axes);

struct Extremes {
  int64_t low, high;
};
// Returns the smallest and the largest of at least one integer.
Extremes integer_extremes(const TensorRef& values);

// Counts how often the numbers from 0 to bins - 1 occur among integers of this range.
void count_integers(const TensorRef& values, int64_t bins, int64_t* counts);

// For each value, writes the number of elements of an ascending vector of the same dtype that are
// smaller, or not larger if `right`. NaN is the largest value.
void search_sorted(const TensorRef& sorted, const TensorRef& values, bool right, int64_t* places);

}  // namespace mxlite::cpu
