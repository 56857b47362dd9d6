// Implements the scheduler's waits, and the check that throws if a wait would never end.
#include <atomic>
#include <chrono>
#include <unordered_set>

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/deferred.h"
#include "cpp/engine/scheduler.h"

namespace mxlite::engine {
namespace {

std::atomic<void* (*)()> release_hook{nullptr};
std::atomic<void (*)(void*)> acquire_hook{nullptr};

std::atomic<int> unlimited_pushes{0};

std::atomic<bool (*)()> may_run_handlers{nullptr};
std::atomic<void (*)()> run_handlers{nullptr};

// Counts one waiter during its lifetime. The mutex must be held at construction and destruction.
class WaiterCount {
 public:
  explicit WaiterCount(uint32_t& count) : count_(count) { ++count_; }
  ~WaiterCount() { --count_; }
  WaiterCount& operator=(WaiterCount&&) = delete;  // neither copied nor moved

 private:
  uint32_t& count_;
};

}  // namespace

UnlimitedPushes::UnlimitedPushes() { ++unlimited_pushes; }
UnlimitedPushes::~UnlimitedPushes() { --unlimited_pushes; }

void set_blocking_hooks(BlockingHooks hooks) {
  acquire_hook.store(hooks.acquire);
  release_hook.store(hooks.release);
}

BlockingScope::BlockingScope() {
  auto* release = release_hook.load(std::memory_order_acquire);
  acquire_ = acquire_hook.load(std::memory_order_acquire);
  if (release) token_ = release();
}

BlockingScope::~BlockingScope() {
  if (acquire_) acquire_(token_);
}

void set_interrupt_hooks(InterruptHooks hooks) {
  may_run_handlers = hooks.may_run_here;
  run_handlers = hooks.run;
}

bool is_interruptible() {
  auto* may_run = may_run_handlers.load(std::memory_order_acquire);
  return may_run && !in_task() && may_run();
}

bool in_task() { return Scheduler::RunScope::innermost() != nullptr; }

void run_interrupt_hook() { run_handlers.load(std::memory_order_acquire)(); }

std::vector<TaskRef> Scheduler::unfinished_users(Var& var) const {
  std::vector<TaskRef> users;
  if (var.last_writer_ && !var.last_writer_->done_) users.push_back(var.last_writer_);
  for (const TaskRef& reader : var.readers_)
    if (!reader->done_) users.push_back(reader);
  return users;
}

void Scheduler::check_may_wait(const Task& target) const {
  if (target.done_ || !RunScope::innermost()) return;
  std::vector<const Task*> open;  // tasks that cannot end while the caller sleeps
  for (RunScope* s = RunScope::innermost(); s; s = s->outer_) {
    if (&s->scheduler_ != this) continue;
    open.push_back(&s->task_);
    if (!s->on_worker_) continue;
    for (const Task* t = s->task_.queue_->oldest; t; t = t->next_)
      if (!t->run_by_caller_) open.push_back(t);
  }
  std::unordered_set<const Task*> found(open.begin(), open.end());
  const auto add = [&](const Task* t) {
    if (found.insert(t).second) open.push_back(t);
  };
  while (!open.empty()) {
    const Task* t = open.back();
    open.pop_back();
    if (t == &target)
      fail(ErrorKind::kError, "wait: task ", RunScope::innermost()->task_.name, " waits for task ",
           target.name, ", which cannot run before the waiting task has ended; declare ",
           "the value as one of the waiting task's reads");
    for (const Task::Edge& edge : t->successors_) add(edge.to());
    if (t->queue_->in_order && t->next_) add(t->next_);
  }
}

void Scheduler::check_may_wait_for_dependencies(const Access& access,
                                                const PushOptions& options) const {
  if (!RunScope::innermost()) return;
  for_each_dependency(access, [&](const Task& before, bool) { check_may_wait(before); });
  if (is_stream_worker(options.worker)) return;  // stream tasks do not wait in a queue on the host
  const WorkerQueue& queue = queues_[static_cast<size_t>(options.worker)];
  if (queue.in_order && queue.newest) check_may_wait(*queue.newest);
}

void Scheduler::check_may_wait_for_all() const {
  for (RunScope* s = RunScope::innermost(); s; s = s->outer_)
    if (&s->scheduler_ == this) check_may_wait(s->task_);
}

void Scheduler::sleep_until_done(std::unique_lock<std::mutex>& lock, Task& target) {
  const WaiterCount waiting(target.waiters_);
  wait_interruptibly(lock, progress_, [&] { return target.done_; });
}

void Scheduler::sleep_until_ready(std::unique_lock<std::mutex>& lock, Task& target) {
  if (ready(target)) return;
  {
    const BlockingScope blocking;
    progress_.wait(lock, [&] { return ready(target); });
    lock.unlock();
  }
  lock.lock();
}

void Scheduler::sleep_until_empty(std::unique_lock<std::mutex>& lock) {
  const WaiterCount waiting(empty_waiters_);
  wait_interruptibly(lock, progress_, [&] { return stats_.in_flight == 0; });
}

// Returns whether `bytes` more fit into the limit of bytes in flight. A single task may exceed the
// limit.
bool Scheduler::bytes_fit(size_t bytes) const {
  return bytes == 0 || stats_.bytes_in_flight == 0 || stats_.bytes_in_flight + bytes <= max_bytes_;
}

bool Scheduler::over_limit(size_t bytes) const {
  if (unlimited_pushes > 0) return false;
  return stats_.in_flight >= max_tasks_ || !bytes_fit(bytes);
}

// Returns whether a waiting push may continue. It waits until a quarter of the tasks has ended,
// because otherwise each completed task would cause a thread switch.
bool Scheduler::below_low_mark() const { return stats_.in_flight <= max_tasks_ * 3 / 4; }

void Scheduler::sleep_until_below_limit(std::unique_lock<std::mutex>& lock, size_t bytes) {
  const WaiterCount waiting(limit_waiters_);
  while (over_limit(bytes))  // UnlimitedPushes may lift the limit without a notification, so this
                             // wait has a timeout
    wait_interruptibly(
        lock, progress_, [&] { return below_low_mark() && bytes_fit(bytes); },
        std::chrono::steady_clock::now() + kInterruptPeriod);
}

}  // namespace mxlite::engine
