// Blocking waits: a thread that blocks releases the GIL (through set_blocking_hooks), and the
// thread that runs the program's signal handlers checks for signals meanwhile.
#pragma once
#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>

namespace mxlite::engine {

// Releases the GIL while this thread blocks or runs foreign work. Must not end while holding an
// engine lock: taking the GIL back may need another thread's push.
class BlockingScope {
 public:
  BlockingScope();
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  void* token_ = nullptr;
  void (*acquire_)(void*) = nullptr;
};

struct InterruptHooks {
  bool (*may_run_here)() = nullptr;  // whether this thread runs the program's signal handlers
  void (*run)() = nullptr;           // runs them; throws what they raise (Ctrl-C)
};
void set_interrupt_hooks(InterruptHooks hooks);

// Whether waits of this thread end when a signal handler raises. False inside tasks.
bool is_interruptible();
// Requires is_interruptible and no locks held.
void run_interrupt_hook();

inline constexpr std::chrono::milliseconds kInterruptPeriod{100};
inline constexpr auto kNoEnd = std::chrono::steady_clock::time_point::max();

// Waits until `is_over` or `end`, with the GIL given up, and returns whether it is over. Throws
// what a signal handler raises meanwhile. The lock is held again in all cases.
template <class Condition, class Predicate>
bool wait_interruptibly(std::unique_lock<std::mutex>& lock, Condition& changed,
                        const Predicate& is_over,
                        std::chrono::steady_clock::time_point end = kNoEnd) {
  if (is_over()) return true;
  bool over = false;
  try {
    const BlockingScope blocking;
    const bool interruptible = is_interruptible();
    if (!interruptible && end == kNoEnd) {
      changed.wait(lock, is_over);
      over = true;
    }
    while (!over) {
      const auto now = std::chrono::steady_clock::now();
      over = changed.wait_until(lock, std::min(end, now + kInterruptPeriod), is_over);
      if (over || now >= end) break;
      if (!interruptible) continue;
      lock.unlock();
      run_interrupt_hook();
      lock.lock();
    }
    lock.unlock();
  } catch (...) {  // thrown by a signal handler
    lock.lock();
    throw;
  }
  lock.lock();
  return over;
}

// Waits for a future in the same way.
template <class T>
T get_interruptibly(std::future<T>&& future) {
  const BlockingScope blocking;
  if (is_interruptible())
    while (future.wait_for(kInterruptPeriod) == std::future_status::timeout) run_interrupt_hook();
  return future.get();
}

}  // namespace mxlite::engine
