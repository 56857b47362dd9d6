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

// Time of one element in ns, where it cannot be measured.
constexpr double kElementNanoseconds = 0.4;

// Multiply-adds of a fast product that take as long as one element.
constexpr int64_t kProductsPerElement = 8;

namespace detail {
using RangeFn = void (*)(void* closure, int64_t begin, int64_t end, int thread);
void share_range(int64_t count, int64_t grain, int64_t work, RangeFn fn, void* closure, int most);
void run_shares(int count, void (*fn)(void* closure, int64_t share), void* closure);
int count_parts(int64_t count, double work);
}  // namespace detail

// Calls fn(begin, end, thread) for ranges that cover [0, count) and begin at multiples of `grain`.
// `work` is the approximate cost of one item in elements. The first items are measured, and
// threads_for() decides from that how many threads share the rest. A thread calls fn several times,
// and its part is finished by the others if it has no core. Threads are numbered from 0, there are
// at most cpu_threads() and `most`.
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

// Calls fn(share) for every share in [0, count), on as many threads but at most cpu_threads().
// Shares must not wait for each other. For loops whose memory is divided into shares before.
template <class Fn>
void run_shares(int count, Fn&& fn) {
  using Body = std::remove_reference_t<Fn>;
  detail::run_shares(
      count, [](void* closure, int64_t share) { (*static_cast<Body*>(closure))(share); },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

// Calls fn(begin, end) for parts of [0, count) of about equal size, one for each thread that a loop
// of `work` nanoseconds deserves. Within a region there is one part. For loops that read all of
// their input for each part, so that share_range() with its smaller pieces would read it too often.
template <class Fn>
void run_parts(int64_t count, double work, Fn&& fn) {
  const int parts = detail::count_parts(count, work);
  run_shares(parts, [&](int64_t part) { fn(count * part / parts, count * (part + 1) / parts); });
}

// During the object's lifetime, oneDNN divides the calls of this thread among `count` threads.
// Afterwards it uses cpu_threads() again.
class LibraryThreads {
 public:
  explicit LibraryThreads(int count);
  ~LibraryThreads();
  LibraryThreads& operator=(LibraryThreads&&) = delete;  // neither copied nor moved
};

}  // namespace mxlite
