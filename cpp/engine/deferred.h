// A task that ends later than its `run`. `start` passes the work to another thread (for example a
// negotiation with other processes), and `finish` ends the task. In between, the worker runs other
// tasks.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

class DeferredTask : public Task {
 public:
  using Task::Task;

  // Starts the work. Runs under the same conditions as `run` of other tasks. `finish` may be called
  // before `start` returns. If `start` throws, `finish` must not be called.
  virtual void start() = 0;
  void run() final;

  // Completes the task; a null error means success. Must be called once, on any thread, for each
  // `start` that returned. Releases the operands before waiters wake.
  void finish(std::exception_ptr error) noexcept;

 private:
  friend class Scheduler;
  Scheduler* scheduler_ = nullptr;  // set by run
  bool left_ = false;  // whether the worker has taken other tasks; guarded by the scheduler's mutex
  bool finished_ = false;  // guarded by the scheduler's mutex
};
using DeferredRef = IntrusivePtr<DeferredTask>;

// While an UnlimitedPushes exists, pushes do not wait for the limits on tasks in flight. A task
// creates one before it waits for work that the program has not pushed yet. Otherwise the push of
// this work could wait for the task.
class UnlimitedPushes {
 public:
  UnlimitedPushes();
  ~UnlimitedPushes();
  UnlimitedPushes& operator=(UnlimitedPushes&&) = delete;  // neither copied nor moved
};

}  // namespace mxlite::engine
