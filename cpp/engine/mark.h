// Marks the end of a stream task, so that dependents do not wait for later work of the stream.
#pragma once

namespace mxlite::engine {

// Call inside `run` of a stream task. Waits and dependent tasks of other workers then wait only
// for the work of this task, and not for later work of the stream. Has no effect in other
// tasks.
void mark_end_of_task();

}  // namespace mxlite::engine
