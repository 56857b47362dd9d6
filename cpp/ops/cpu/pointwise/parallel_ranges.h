// Divides an index range among threads.
#pragma once
#include <cstdint>

#include "cpp/core/parallel.h"
#include "cpp/ops/cpu/pointwise/block_io.h"

namespace mxlite::pointwise {

// Above this many elements, loops are divided among threads (and calls never run inline).
constexpr int64_t kParallelElements = 32 << 10;

// Calls fn(first, last) for parts of [0, n), which begin at multiples of kBlock; for one part if n
// is small. See share_range().
void parallel_ranges(int64_t n, auto&& fn) {
  if (n <= kParallelElements) return fn(int64_t{0}, n);
  share_range(n, kBlock, 2, [&](int64_t first, int64_t last, int) { fn(first, last); });
}

}  // namespace mxlite::pointwise
