// Blocking waits. A thread that blocks releases the GIL (through set_blocking_hooks). The thread
// that runs the program's signal handlers also checks for signals while it waits.
#pragma once
#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>

namespace mxlite::engine {

// Releases the GIL while this thread blocks or runs foreign code. Must not be destroyed while an
// engine lock is held, because the thread that has the GIL may need the lock to push.
class BlockingScope {
 public:
  BlockingScope();
  ~BlockingScope();
  BlockingScope& operator=(BlockingScope&&) = delete;  // neither copied nor moved

 private:
  void* token_ = nullptr;
  void (*acquire_)(void*) = nullptr;
};

// Locks a mutex whose owner may push tasks and thereby wait for the GIL. Releases the GIL while
// waiting for the mutex, because otherwise both threads could wait for each other.
inline std::unique_lock<std::mutex> lock_without_gil(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) {
    const BlockingScope blocking;
    lock.lock();
  }
  return lock;
}

struct InterruptHooks {
  bool (*may_run_here)() = nullptr;  // whether this thread runs the program's signal handlers
  void (*run)() = nullptr;  // runs the handlers; throws the exceptions that they raise (Ctrl-C)
};
void set_interrupt_hooks(InterruptHooks hooks);

// Returns whether a signal handler's exception ends waits of this thread. Returns false inside
// tasks.
bool is_interruptible();
// Requires that is_interruptible() is true and that this thread holds no lock.
void run_interrupt_hook();

inline constexpr std::chrono::milliseconds kInterruptPeriod{100};
inline constexpr auto kNoEnd = std::chrono::steady_clock::time_point::max();

// Waits without the GIL until `is_over` returns true or the time `end` is reached, and returns the
// last result of `is_over`. Throws exceptions that a signal handler raises. Always holds the lock
// again afterwards.
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

// Waits for a future like wait_interruptibly.
template <class T>
T get_interruptibly(std::future<T>&& future) {
  const BlockingScope blocking;
  if (is_interruptible())
    while (future.wait_for(kInterruptPeriod) == std::future_status::timeout) run_interrupt_hook();
  return future.get();
}

}  // namespace mxlite::engine
