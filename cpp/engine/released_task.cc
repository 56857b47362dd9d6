#include "cpp/engine/released_task.h"

#include <utility>

namespace mxlite::engine {
namespace {

thread_local const Failure* released_failure = nullptr;

}  // namespace

std::exception_ptr failure_of_released_task() {
  return released_failure ? released_failure->error : nullptr;
}

void release_operands(Task& task, const FailureRef& failure) noexcept {
  // Saves the outer failure, because a release may push another task, which then runs immediately.
  const Failure* const outer = std::exchange(released_failure, failure.get());
  task.release_operands();
  released_failure = outer;
}

}  // namespace mxlite::engine
