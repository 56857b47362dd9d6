// Divides an index range among threads.
#pragma once
#include <algorithm>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/pointwise/block_io.h"

namespace mxlite::pointwise {

// Above this many elements, loops are divided among threads (and calls never run inline).
constexpr int64_t kParallelElements = 32 << 10;

// Calls fn(first, last) for parts of [0, n); for one part if n is small. Parts begin at multiples
// of kBlock.
void parallel_ranges(int64_t n, auto&& fn) {
  const int threads = n > kParallelElements ? cpu_threads() : 1;
  if (threads == 1) {
    fn(int64_t{0}, n);
    return;
  }
  const int64_t blocks = (n + kBlock - 1) / kBlock;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int part = 0; part < threads; ++part) {
    const int64_t first = blocks * part / threads * kBlock;
    const int64_t last = std::min(n, blocks * (part + 1) / threads * kBlock);
    if (first < last) fn(first, last);
  }
}

}  // namespace mxlite::pointwise
