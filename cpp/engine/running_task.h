// Stops tasks at the end of the process, because it destroys static objects of libraries (oneDNN's
// kernels): the process first waits for running tasks, and other threads begin no new ones.
#pragma once

namespace mxlite::engine {

// Counts a task that this thread runs. Once the process is ending, the constructor sleeps forever,
// except on the thread that ends the process.
class RunningTask {
 public:
  RunningTask();
  ~RunningTask();
  RunningTask& operator=(RunningTask&&) = delete;  // neither copied nor moved
};

// Called by the thread that ends the process. Waits for the running tasks, but at most `seconds`,
// because a task that has called into Python never returns.
void wait_for_running_tasks(double seconds);

}  // namespace mxlite::engine
