// Splits a loop among the compute threads if it is large enough for a parallel region.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/convert_run.h"

namespace mxlite::cpu {

// Cost, in elements, above which a parallel region is worthwhile. Calls with operands of up to 64
// KiB may run inline on the caller's thread, where parallel regions are not allowed. So operators
// that cost more than four per element must set inline_ok = false.
constexpr int64_t kParallelWork = 65536;

// Calls fn(begin, end, thread) for ranges that cover [0, count); `work` is the cost of one item in
// elements. If the total cost is small, makes one call on the caller's thread.
void parallel_ranges(int64_t count, int64_t work, auto&& fn) {
  const int threads = static_cast<int>(std::min<int64_t>(cpu_threads(), count));
  if (threads <= 1 || count * work <= kParallelWork) {
    if (count > 0) fn(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
    if (count * i / n < count * (i + 1) / n)
      fn(count * i / n, count * (i + 1) / n, static_cast<int>(i));
  }
}

// Calls fn(i) for every i in [0, count).
void parallel_for(int64_t count, int64_t work, auto&& fn) {
  parallel_ranges(count, work, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

// Divides one scratch block into aligned parts: call add() for all parts, get the block, then call
// part().
class ScratchPlan {
 public:
  size_t add(size_t bytes) {
    const size_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  template <class T>
  size_t add(int64_t count) {
    return add(static_cast<size_t>(count) * sizeof(T));
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};
template <class T>
T* part(void* block, size_t at) {
  return reinterpret_cast<T*>(static_cast<char*>(block) + at);
}

template <class To, class From>
void convert(const From* from, To* to, int64_t count) {
  parallel_ranges(count, 1, [&](int64_t begin, int64_t end, int) {
    convert_run(from + begin, to + begin, end - begin);
  });
}

}  // namespace mxlite::cpu
