// The graph of unfinished tasks: who waits for whom, what is ready, which failures nobody has seen.
// Plain data behind one mutex, without threads of its own; every function needs the mutex held.
#pragma once
#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "cpp/engine/engine.h"

namespace mxlite::engine {

// The unfinished tasks of one worker.
struct WorkerQueue {
  bool in_order = false;  // comm: the oldest unfinished task is the only one that may run
  Task* oldest = nullptr;
  Task* newest = nullptr;
  Task* ready_first = nullptr;  // not used when in_order
  Task* ready_last = nullptr;
  Task* running = nullptr;  // on the worker's own thread
  bool asleep = false;      // the thread waits on work_arrived
  bool stopping = false;
  std::condition_variable work_arrived;

  // Nothing runs or is ready, so that a task run by the caller overtakes nobody.
  bool idle() const {
    return in_order ? oldest == nullptr : running == nullptr && ready_first == nullptr;
  }
  bool has_work() const;
  Task* take_work();  // requires has_work(); marks the task as running
  void wake();
};

class Scheduler {
 public:
  Scheduler();

  // What the calling thread runs; scopes nest when a task pushes tasks that run in the caller.
  class RunScope {
   public:
    RunScope(const Scheduler& scheduler, Task& task, bool on_worker);
    ~RunScope();
    static RunScope* innermost();  // nullptr outside of tasks

   private:
    friend class Scheduler;
    const Scheduler& scheduler_;
    Task& task_;
    const bool on_worker_;
    RunScope* const outer_;
  };

  WorkerQueue& queue(WorkerKind kind) { return queues_[static_cast<size_t>(kind)]; }

  bool dependencies_met(const Access& access) const;
  // Takes the task in. It is ready if ready(task) says so; the caller then enqueues or runs it.
  void admit(const TaskRef& task, const Access& access, const PushOptions& options,
             bool run_by_caller);
  static bool ready(const Task& task);
  void enqueue(Task& task);
  static void mark_running(Task& task) { task.running_ = true; }
  // Runs the task if its inputs have not failed. The only function called without the mutex.
  void execute(Task& task, bool on_worker) const;
  // Releases what waited for the task.
  void complete(Task& task);

  TaskRef last_writer(Var& var);
  std::vector<TaskRef> unfinished_users(Var& var) const;
  void host_wrote(Var& var);
  // The failure of a task that is done; from now on it counts as seen.
  FailureRef see_failure(Task& task) const;
  FailureRef take_unseen_failure();

  // These throw instead of a wait that cannot end because the calling task is in its way.
  void check_may_wait(const Task& target) const;
  void check_may_wait_for_dependencies(const Access& access, const PushOptions& options) const;
  void check_may_wait_for_all() const;
  // The sleeps release the mutex and end with it held.
  void sleep_until_done(std::unique_lock<std::mutex>& lock, Task& target);
  void sleep_until_ready(std::unique_lock<std::mutex>& lock, Task& target);
  void sleep_until_empty(std::unique_lock<std::mutex>& lock);
  bool over_limit(size_t bytes) const;
  void sleep_until_below_limit(std::unique_lock<std::mutex>& lock, size_t bytes);

  const EngineStats& stats() const { return stats_; }
  // In a forked child: unfinished tasks belong to threads that do not exist here.
  void abandon_unfinished();

  mutable std::mutex mutex;

 private:
  template <class F>
  static void for_each_dependency(const Access& access, F&& depend);
  static void connect(Task& task, const Access& access);
  static void publish(const TaskRef& task, const Access& access);
  static void add_reader(Var& var, const TaskRef& task);
  static void set_writer(Var& var, const TaskRef& task);
  static void unlink(Task& task);
  static void forget_clean_writer(Var& var);
  void note_unseen(const FailureRef& failure);
  bool below_low_mark() const;
  bool bytes_fit(size_t bytes) const;

  std::array<WorkerQueue, kNumWorkerKinds> queues_;
  std::condition_variable progress_;  // a task with waiters is done, or a limit is met
  EngineStats stats_;
  uint64_t empty_waiters_ = 0;
  uint64_t limit_waiters_ = 0;
  uint64_t max_tasks_;
  uint64_t max_bytes_;
  std::vector<FailureRef> unseen_;  // root failures, at most kMaxUnseen
};

// Calls depend(task that comes before, does its value matter).
template <class F>
void Scheduler::for_each_dependency(const Access& access, F&& depend) {
  for (Var* v : access.reads)
    if (v->last_writer_) depend(*v->last_writer_, true);
  for (Var* v : access.updates) {
    if (v->last_writer_) depend(*v->last_writer_, true);
    for (const TaskRef& reader : v->readers_) depend(*reader, false);
  }
  for (Var* v : access.overwrites) {
    if (v->last_writer_) depend(*v->last_writer_, false);
    for (const TaskRef& reader : v->readers_) depend(*reader, false);
  }
}

}  // namespace mxlite::engine
