// Divides loops among threads.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace mxlite {

// Cost of a loop, in elements, up to which it runs on the calling thread without a measurement. The
// cost of one element is that of an addition. Calls with operands of up to 64 KiB may run inline on
// the program's thread, which must not begin a region. Therefore operators that cost more than four
// per element must set inline_ok = false.
constexpr int64_t kParallelWork = 65536;

// Assumed time of one element in ns if it cannot be measured.
constexpr double kElementNanoseconds = 0.4;

// Number of multiply-adds of a fast matrix product that take as long as one element.
constexpr int64_t kProductsPerElement = 8;

namespace detail {
using RangeFn = void (*)(void* closure, int64_t begin, int64_t end, int thread);
void share_range(int64_t count, int64_t grain, int64_t work, RangeFn fn, void* closure, int most);
void run_shares(int count, void (*fn)(void* closure, int64_t share), void* closure);
int count_parts(int64_t count, double work);
}  // namespace detail

// Calls fn(begin, end, thread) for ranges that cover [0, count) and begin at multiples of `grain`.
// `work` is the approximate cost of one item in elements. The first items are measured, and
// threads_for() uses the result to decide how many threads share the rest. A thread calls fn
// several times, and other threads finish the part of a thread that has no core. `thread` counts
// from 0 and is below cpu_threads() and `most`.
template <class Fn>
void share_range(int64_t count, int64_t grain, int64_t work, Fn&& fn,
                 int most = std::numeric_limits<int>::max()) {
  using Body = std::remove_reference_t<Fn>;
  detail::share_range(
      count, grain, work,
      [](void* closure, int64_t begin, int64_t end, int thread) {
        (*static_cast<Body*>(closure))(begin, end, thread);
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))), most);
}

// Calls fn(share) for every share in [0, count), on at most `count` and at most cpu_threads()
// threads. Shares must not wait for each other. Serves loops whose memory is divided into shares
// beforehand.
template <class Fn>
void run_shares(int count, Fn&& fn) {
  using Body = std::remove_reference_t<Fn>;
  detail::run_shares(
      count, [](void* closure, int64_t share) { (*static_cast<Body*>(closure))(share); },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

// Calls fn(begin, end) for parts of [0, count) of about equal size. The number of parts is the
// number of threads that suits a loop of `work` nanoseconds; inside a region it is 1. Serves loops
// that read all of their input for each part. share_range() has smaller pieces, so such loops would
// read their input too often.
template <class Fn>
void run_parts(int64_t count, double work, Fn&& fn) {
  const int parts = detail::count_parts(count, work);
  run_shares(parts, [&](int64_t part) { fn(count * part / parts, count * (part + 1) / parts); });
}

// During the object's lifetime, oneDNN divides the calls of this thread among `count` threads.
// Afterwards oneDNN uses cpu_threads() again.
class LibraryThreads {
 public:
  explicit LibraryThreads(int count);
  ~LibraryThreads();
  LibraryThreads& operator=(LibraryThreads&&) = delete;  // neither copied nor moved
};

}  // namespace mxlite
