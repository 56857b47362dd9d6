// Lets a task that does not run know the reason when its operands are released.
#pragma once
#include <exception>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// Returns the failure of the task whose operands this thread releases: its own, or that of a value
// which it uses. Call in Task::release_operands only; null if the task has not failed.
std::exception_ptr failure_of_released_task();

void release_operands(Task& task, const FailureRef& failure) noexcept;

}  // namespace mxlite::engine
