// One thread that runs the tasks of one queue as they become ready.
#pragma once
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

class Worker {
 public:
  Worker(Scheduler& scheduler, WorkerKind kind);
  // Requires an empty queue; joins the thread.
  ~Worker();

 private:
  void run();

  Scheduler& scheduler_;
  WorkerQueue& queue_;
  std::thread thread_;  // last member: starts when the others are there
};

}  // namespace mxlite::engine
