// Provides the reason why a task did not run, while its operands are released.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// Returns the failure of the task whose operands this thread releases: the task's own failure or
// the failure of a value that the task uses. Call only in Task::release_operands. Returns null if
// the task has not failed. Also returns null after DeferredTask::finish and for stream tasks that
// keep their operands until the device is done. Therefore only tasks of host workers that did not
// run may rely on the result.
std::exception_ptr failure_of_released_task();

void release_operands(Task& task, const FailureRef& failure) noexcept;

}  // namespace mxlite::engine
