// Loops of operators over items and ranges, divided among threads by their work.
#pragma once
#include <cstdint>

#include "cpp/core/parallel.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/convert_run.h"

namespace mxlite::cpu {

// Calls fn(begin, end, thread) for ranges that cover [0, count); see share_range(). Ranges of cheap
// items begin at multiples of kVectorGrain. Otherwise measured times would determine which items a
// vectorized loop computes one by one, with another rounding.
constexpr int64_t kVectorGrain = 64;
void parallel_ranges(int64_t count, int64_t work, auto&& fn) {
  share_range(count, work <= kVectorGrain ? kVectorGrain : 1, work, fn);
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
