// Tells a task that does not run the reason when its operands are released.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// Returns the failure of the task whose operands this thread releases: its own, or the failure of a
// value that it uses. Call it only in Task::release_operands. Returns null if the task has not
// failed. Also returns null after DeferredTask::finish and for stream tasks that keep their
// operands until the device is done, because the scheduler releases these directly. So only tasks
// of host workers that did not run may rely on it.
std::exception_ptr failure_of_released_task();

void release_operands(Task& task, const FailureRef& failure) noexcept;

}  // namespace mxlite::engine
