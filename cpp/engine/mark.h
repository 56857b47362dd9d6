// Marks the end of a stream task, for tasks that many others follow closely.
#pragma once

namespace mxlite::engine {

// Call in the run of a stream task. Waits and tasks of other workers that depend on the task then
// wait for its work only, and not for work that the stream is given afterwards. Has no effect in
// other tasks.
void mark_end_of_task();

}  // namespace mxlite::engine
