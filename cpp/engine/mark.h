// Marks the end of a stream task, so that dependents do not wait for later work of the stream.
#pragma once

namespace mxlite::engine {

// Call inside `run` of a stream task. Waits and tasks of other workers that depend on the task then
// wait only for the work of this task and not for work that is submitted to the stream afterwards.
// Has no effect in other tasks.
void mark_end_of_task();

}  // namespace mxlite::engine
