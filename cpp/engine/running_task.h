// Stops tasks while the process ends or forks. The end destroys static objects of libraries
// (oneDNN's kernels). A fork copies the locks that functions of tasks hold, and nobody unlocks them
// in the child. The process therefore first waits for the functions of running tasks, and other
// threads begin none.
#pragma once

namespace mxlite::engine {

// Counts a task that this thread runs. While the process is ending, the constructor returns only on
// the thread that ends the process. During a fork, the constructor waits for the end of the fork,
// unless the task is nested, which means that this thread runs it inside another task.
class RunningTask {
 public:
  explicit RunningTask(bool nested);
  ~RunningTask();
  RunningTask& operator=(RunningTask&&) = delete;  // neither copied nor moved
};

// While the object exists, the tasks that this thread runs do not count as running, because they
// wait for a lock that a forking thread may hold: Python's.
class UncountedTasks {
 public:
  UncountedTasks();
  ~UncountedTasks();
  UncountedTasks& operator=(UncountedTasks&&) = delete;  // neither copied nor moved

 private:
  const int count_;
};

// Waits for the running tasks of other threads, for at most `seconds`, because a task that has
// called Python never returns at this point. Called by the thread that ends the process.
void wait_for_running_tasks(double seconds);

// Keeps other threads from beginning tasks, and waits for their running tasks for at most
// `seconds`, because some tasks wait for other processes. Called before a fork.
void hold_tasks(double seconds);
// Called after the fork by the parent and by the child.
void release_tasks();
// Called by the child, which does not have the other threads.
void forget_tasks_of_other_threads();

}  // namespace mxlite::engine
