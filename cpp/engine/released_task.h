// Lets a task that does not run know the reason when its operands are released.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// Returns the failure of the task whose operands this thread releases: its own, or that of a value
// which it uses. Call it in Task::release_operands only. Null if the task has not failed, and also
// after DeferredTask::finish and for stream tasks that keep their operands until the device is
// done: the scheduler releases those directly. So only tasks of other workers that did not run may
// rely on it.
std::exception_ptr failure_of_released_task();

void release_operands(Task& task, const FailureRef& failure) noexcept;

}  // namespace mxlite::engine
