// A thread that runs the tasks of a queue as they become ready.
#pragma once
#include <functional>
#include <string>
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

// Starts a thread named mxlite-<name> that receives no signals. The name has at most 8 characters.
std::thread start_thread(const std::string& name, std::function<void()> run);

class Worker {
 public:
  Worker(Scheduler& scheduler, WorkerKind kind);
  // Requires an empty queue. Joins the thread.
  ~Worker();

 private:
  void run();

  Scheduler& scheduler_;
  WorkerQueue& queue_;
  const bool polls_;
  std::thread thread_;  // last member, so that the thread starts after all other members exist
};

}  // namespace mxlite::engine
