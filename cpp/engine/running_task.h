// Threads that compute while the process ends: the static objects of libraries (oneDNN's kernels)
// are destroyed then, so the process first waits for running tasks, and no other thread begins one.
#pragma once

namespace mxlite::engine {

// Counts a task that this thread runs. Once the process ends, the constructor sleeps forever on
// every thread but the one that ends it.
class RunningTask {
 public:
  RunningTask();
  ~RunningTask();
  RunningTask(const RunningTask&) = delete;
  RunningTask& operator=(const RunningTask&) = delete;
};

// Called by the thread that ends the process. Waits for the running tasks at most that long,
// because one that has called into Python never returns.
void wait_for_running_tasks(double seconds);

}  // namespace mxlite::engine
