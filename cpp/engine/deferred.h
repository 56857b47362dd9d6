// A task that ends later than its run: run hands the work to somebody else (a negotiation with
// other processes), who calls finish. Meanwhile the worker goes on with other tasks.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

class DeferredTask : public Task {
 public:
  using Task::Task;

  // Hands the work over, as run of other tasks; finish may be called before it returns. If it
  // throws, finish is not called.
  virtual void start() = 0;
  void run() final;

  // On any thread, once for each start that returned; null: success. The operands are released
  // before waiters wake.
  void finish(std::exception_ptr error) noexcept;

 private:
  friend class Scheduler;
  Scheduler* scheduler_ = nullptr;  // set by run
  bool left_ = false;               // the worker has gone on; guarded by the scheduler's mutex
  bool finished_ = false;           // guarded by the scheduler's mutex
};
using DeferredRef = IntrusivePtr<DeferredTask>;

}  // namespace mxlite::engine
