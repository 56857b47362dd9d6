// Splits a loop among the compute threads when it is worth a parallel region.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/convert_run.h"

namespace mxlite::cpu {

// Cost, in elements, above which a parallel region pays. Calls of up to 64 KiB of operands may run
// inline in the caller's thread, which must stay free of parallel regions: operators that cost more
// than four per element set inline_ok = false.
constexpr int64_t kParallelWork = 65536;

// fn(begin, end, thread) over ranges that cover [0, count); `work` is the cost of one item in
// elements. One call in the caller's thread when all of it is small.
template <class F>
void parallel_ranges(int64_t count, int64_t work, F&& fn) {
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

// fn(i) for every i in [0, count).
template <class F>
void parallel_for(int64_t count, int64_t work, F&& fn) {
  parallel_ranges(count, work, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

// Cuts one scratch block into aligned parts: add all, then get the block, then place.
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
