#include "cpp/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "cpp/core/openmp.h"
#include "cpp/core/threads.h"

namespace mxlite {

LibraryThreads::LibraryThreads(int count) { openmp::set_num_threads(count); }
LibraryThreads::~LibraryThreads() { openmp::set_num_threads(cpu_threads()); }

namespace detail {
namespace {

using Clock = std::chrono::steady_clock;

// The items of one thread. Other threads take over items if the thread falls behind.
struct alignas(64) Part {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Loop {
  RangeFn fn;
  void* closure;
  int64_t piece;  // number of items that a thread takes at a time
  std::vector<Part> parts;

  static void run(void* loop) {
    auto& l = *static_cast<Loop*>(loop);
    const int me = openmp::get_thread_num();
    for (size_t k = 0; k < l.parts.size(); ++k) {
      Part& part = l.parts[(static_cast<size_t>(me) + k) % l.parts.size()];
      int64_t begin;
      while ((begin = part.next.fetch_add(l.piece, std::memory_order_relaxed)) < part.end)
        l.fn(l.closure, begin, std::min(begin + l.piece, part.end), me);
    }
  }
};

struct Shares {
  void (*fn)(void* closure, int64_t share);
  void* closure;
  int count;

  static void run(void* shares) {
    const auto& s = *static_cast<const Shares*>(shares);
    for (int share = openmp::get_thread_num(); share < s.count; share += openmp::get_num_threads())
      s.fn(s.closure, share);
  }
};

}  // namespace

void run_shares(int count, void (*fn)(void* closure, int64_t share), void* closure) {
  if (count <= 0) return;
  if (count == 1) return fn(closure, 0);
  Shares shares{fn, closure, count};
  openmp::run_region(&Shares::run, &shares, static_cast<unsigned>(std::min(count, cpu_threads())));
}

int count_parts(int64_t count, double work) {
  return openmp::in_parallel() ? 1 : threads_for(work, count);
}

void share_range(int64_t count, int64_t grain, int64_t work, RangeFn fn, void* closure, int most) {
  if (count <= 0) return;
  if (count * work <= kParallelWork || count <= grain || std::min(cpu_threads(), most) == 1 ||
      openmp::in_parallel())
    return fn(closure, 0, count, 0);
  constexpr int64_t kMeasured = 8192;  // elements, whose cost is some microseconds
  double item = kElementNanoseconds *
                static_cast<double>(work);  // ns; an estimate if items are few and large
  int64_t begin = 0;
  if (grain * work <= kMeasured) {
    const int64_t first = std::max<int64_t>(1, kMeasured / (grain * work)) * grain;
    const auto start = Clock::now();
    fn(closure, 0, first, 0);
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    item = taken.count() / static_cast<double>(first);
    begin = first;
  }
  const int64_t grains = (count - begin + grain - 1) / grain;
  const int threads =
      threads_for(item * static_cast<double>(count - begin), std::min<int64_t>(grains, most));
  if (threads == 1) return fn(closure, begin, count, 0);
  // A piece takes at least 25 us, and each thread gets about eight pieces at most.
  const auto least = static_cast<int64_t>(kWorkPerThread / std::max(item, 1e-3)) / grain;
  Loop loop{fn, closure, std::max<int64_t>({1, grains / threads / 8, least}) * grain,
            std::vector<Part>(static_cast<size_t>(threads))};
  for (int t = 0; t < threads; ++t) {
    Part& part = loop.parts[static_cast<size_t>(t)];
    part.next = begin + grains * t / threads * grain;
    part.end = std::min(begin + grains * (t + 1) / threads * grain, count);
  }
  openmp::run_region(&Loop::run, &loop, static_cast<unsigned>(threads));
}

}  // namespace detail
}  // namespace mxlite
