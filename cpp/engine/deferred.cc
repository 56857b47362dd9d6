#include "cpp/engine/deferred.h"

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

void DeferredTask::run() {
  scheduler_ = Scheduler::RunScope::innermost()->defer();
  try {
    start();
  } catch (...) {
    Scheduler::RunScope::innermost()->defer(false);
    throw;
  }
}

void DeferredTask::finish(std::exception_ptr error) noexcept {
  const DeferredRef self(this);  // completion drops the engine's reference
  FailureRef failure;
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      failure = scheduler_->own_failure(*this, decorate_current_exception(*this));
    }
  }
  release_operands();
  std::lock_guard lock(scheduler_->mutex);
  scheduler_->finish(*this, failure);
}

}  // namespace mxlite::engine
