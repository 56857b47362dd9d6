// The graph of unfinished tasks: dependencies, ready tasks, and failures that no wait has thrown.
// Has one mutex and no threads. Call functions with the mutex held unless they say otherwise.
#pragma once
#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "cpp/engine/broken_device.h"
#include "cpp/engine/engine.h"
#include "cpp/engine/stream_state.h"
#include "cpp/engine/write_line.h"

namespace mxlite::engine {

class DeferredTask;

class Scheduler {
 public:
  Scheduler();

  // Marks the task that the calling thread runs. Scopes nest if the task pushes a task that runs
  // inline.
  class RunScope {
   public:
    RunScope(Scheduler& scheduler, Task& task, bool on_worker);
    ~RunScope();
    static RunScope* innermost();  // nullptr outside of tasks
    static int depth() {           // number of nested tasks that this thread runs
      int tasks = 0;
      for (const RunScope* s = innermost(); s; s = s->outer_) ++tasks;
      return tasks;
    }
    StreamState* stream_state() const;  // stream of the task's worker, or null
    // Marks that the task ends later than its `run`. Returns the scheduler that must be notified
    // then.
    Scheduler* defer(bool deferred = true);

   private:
    friend class Scheduler;
    Scheduler& scheduler_;
    Task& task_;
    const bool on_worker_;
    bool deferred_ = false;
    RunScope* const outer_;
  };

  // Returns the worker's queue. For a stream worker, call open_stream first.
  WorkerQueue& queue(const PushOptions& options);
  // Returns the state, which is created on first use and never destroyed. Call without the mutex,
  // because device setup is slow.
  StreamState& stream_state(WorkerKind worker, int device) { return streams_.get(worker, device); }
  void open_stream(const PushOptions& options) {
    if (is_stream_worker(options.worker)) stream_state(options.worker, options.device);
  }
  static void set_allocated(Var& var, StreamPoint point) { var.allocated_ = point; }
  static StreamPoint allocated(const Var& var) { return var.allocated_; }

  bool dependencies_met(const Access& access) const;
  // Adds the task. If ready(task) returns true afterwards, the caller must enqueue or run it.
  void admit(const TaskRef& task, const Access& access, const PushOptions& options,
             bool run_by_caller);
  static bool ready(const Task& task);
  void enqueue(Task& task);
  static void mark_running(Task& task) { task.running_ = true; }
  // Runs the task unless an input has failed. Call without the mutex. Returns false if the task
  // ends later, in DeferredTask::finish; then call `leave` instead of `complete`.
  bool execute(Task& task, bool on_worker);
  // Runs a task of a stream worker in the calling thread and waits until the device is done.
  void execute_and_synchronize(Task& task);
  // Releases dependents on streams. Call when a stream task has submitted its work.
  void issue(Task& task);
  // Removes and returns the first tasks whose work the stream has not done: the tasks up to the
  // first mark, or all tasks if there is no mark. `end` receives this mark. Requires at least one
  // such task.
  static Task* take_issued(StreamState& stream_state, StreamState::NumberedMark& end);
  // Call when the stream has done the work of a list of tasks, or has failed with `error`.
  void device_done(Task* batch, const std::exception_ptr& error);
  // Drops operands that were kept until the work ended. Call before device_done, without the mutex.
  static void drop_kept_operands(Task* batch);
  // Releases the dependents of the task.
  void complete(Task& task);
  void leave(Task& task);
  void finish(DeferredTask& task, const FailureRef& failure);
  // Call without the mutex.
  static FailureRef own_failure(const Task& task, std::exception_ptr error) noexcept;

  TaskRef last_writer(Var& var);
  std::vector<TaskRef> unfinished_users(Var& var) const;
  void host_wrote(Var& var);
  static void raise_version(Var& var) {
    const uint64_t before = var.version_.load(std::memory_order_relaxed);
    var.version_.store(version_after(before), std::memory_order_release);
  }
  // Returns the failure of a finished task, and marks it and earlier failures as seen.
  FailureRef see_failure(Task& task);
  FailureRef take_unseen_failure();

  // Throws an error if the wait could never end, because the target waits for the calling
  // task.
  void check_may_wait(const Task& target) const;
  void check_may_wait_for_dependencies(const Access& access, const PushOptions& options) const;
  void check_may_wait_for_all() const;
  // The sleep functions release the mutex and lock it again. All except sleep_until_ready throw
  // exceptions that a signal handler raises.
  void sleep_until_done(std::unique_lock<std::mutex>& lock, Task& target);
  void sleep_until_ready(std::unique_lock<std::mutex>& lock, Task& target);
  void sleep_until_empty(std::unique_lock<std::mutex>& lock);
  bool over_limit(size_t bytes) const;
  void sleep_until_below_limit(std::unique_lock<std::mutex>& lock, size_t bytes);

  const EngineStats& stats() const { return stats_; }
  // Makes the tasks that have not begun fail with `failure` instead of running.
  void cancel_queued(const FailureRef& failure);
  // Makes unfinished tasks fail. Must be called in a forked child, where their threads do not
  // exist.
  void abandon_unfinished();
  void lock_for_fork();
  void unlock_after_fork();

  mutable std::mutex mutex;

 private:
  static void for_each_dependency(const Access& access, auto&& depend);
  static void connect(Task& task, const Access& access);
  static void disconnect(const Task& task, const Access& access) noexcept;
  static void wait_on_stream(Task& task, StreamPoint point);
  void complete_one(Task& task, std::vector<Task*>& also_done);
  void for_each_queue(auto&& visit);
  // Records that a device has reported an error. Returns the failure of all unfinished and later
  // tasks of the device. `submitting` is the task that got the error while it submitted work, or
  // null.
  FailureRef break_device(int device, const std::exception_ptr& error,
                          const Task* submitting = nullptr);
  // Returns the failure of the device if `error`, which a stream task has thrown, was caused by
  // earlier work. Returns null if the device still works. Call without the mutex.
  FailureRef failure_of_device(const Task& task, const std::exception_ptr& error) noexcept;
  static void publish(const TaskRef& task, const Access& access) noexcept;
  static void make_room_for_reader(Var& var);  // call before add_reader, which must not fail
  static void add_reader(Var& var, const TaskRef& task) noexcept;
  static void set_writer(Var& var, const TaskRef& task);
  static void unlink(Task& task);
  static void forget_clean_writer(Var& var);
  void note_unseen(const FailureRef& failure);
  bool below_low_mark() const;
  bool bytes_fit(size_t bytes) const;

  std::array<WorkerQueue, kNumHostWorkers> queues_;
  StreamTable streams_;
  BrokenDevices broken_;
  std::condition_variable progress_;  // signalled when a task with waiters has ended or a limit is
                                      // met
  EngineStats stats_;
  uint32_t empty_waiters_ = 0;
  uint32_t limit_waiters_ = 0;
  uint64_t max_tasks_;
  uint64_t max_bytes_;
  std::vector<FailureRef> unseen_;  // failures that no other failure has caused, at most kMaxUnseen
  uint64_t seen_up_to_ = 0;         // number of the last task whose failure is seen
};

// Calls depend(predecessor, whether its value is used).
void Scheduler::for_each_dependency(const Access& access, auto&& depend) {
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
