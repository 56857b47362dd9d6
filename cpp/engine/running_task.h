// Stops tasks at the end of the process, which destroys static objects of libraries (oneDNN's
// kernels). The process first waits for running tasks. Other threads begin no new tasks.
#pragma once

namespace mxlite::engine {

// Counts a task that this thread runs. While the process is ending, the constructor returns only on
// the thread that ends the process.
class RunningTask {
 public:
  RunningTask();
  ~RunningTask();
  RunningTask& operator=(RunningTask&&) = delete;  // neither copied nor moved
};

// Waits for the running tasks, for at most `seconds`, because a task that has called Python never
// returns at this point. Called by the thread that ends the process.
void wait_for_running_tasks(double seconds);

}  // namespace mxlite::engine
