// Gives a task that did not run the reason, while its operands are released.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// Returns the failure of the task whose operands this thread releases: the task's own failure, or
// that of a value that it uses. Call only in Task::release_operands. Returns null if the task has
// not failed, after DeferredTask::finish, and for stream tasks that keep their operands until the
// device is done, because the scheduler releases the latter two directly. So only tasks of host
// workers that did not run may rely on the result.
std::exception_ptr failure_of_released_task();

void release_operands(Task& task, const FailureRef& failure) noexcept;

}  // namespace mxlite::engine
