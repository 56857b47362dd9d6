// A task that ends later than its `run`: `start` passes the work on to another thread (such as a
// negotiation with other processes), and `finish` ends it. Meanwhile the worker runs other tasks.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

class DeferredTask : public Task {
 public:
  using Task::Task;

  // Starts the work; called like `run` of other tasks. finish may be called before it returns. If
  // it throws, finish must not be called.
  virtual void start() = 0;
  void run() final;

  // Completes the task; null means success. Must be called once for each start that returned, on
  // any thread. The operands are released before waiters wake.
  void finish(std::exception_ptr error) noexcept;

 private:
  friend class Scheduler;
  Scheduler* scheduler_ = nullptr;  // set by run
  bool left_ = false;               // the worker took other tasks; scheduler's mutex
  bool finished_ = false;           // guarded by the scheduler's mutex
};
using DeferredRef = IntrusivePtr<DeferredTask>;

// While one of these exists, pushes do not wait for the limits on tasks in flight. Needed while a
// task waits for work that the program has not pushed yet: the push might wait for this task.
class UnlimitedPushes {
 public:
  UnlimitedPushes();
  ~UnlimitedPushes();
  UnlimitedPushes& operator=(UnlimitedPushes&&) = delete;  // neither copied nor moved
};

}  // namespace mxlite::engine
