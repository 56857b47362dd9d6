// Runs tasks on one thread per worker kind, started on first use. Small tasks whose dependencies
// are done run inside push, because waking a thread costs more than the task.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/engine/graph_engine.h"
#include "cpp/engine/stream_worker.h"
#include "cpp/engine/worker.h"

namespace mxlite::engine {

class ThreadedEngine final : public GraphEngine {
 public:
  ~ThreadedEngine() override;
  void push(TaskRef task, const Access& access, const PushOptions& options) override;
  void stop() override;
  bool runs_in_caller() const override { return runs_in_caller_; }

 private:
  void after_fork_in_child() override;
  void start_stream_worker(StreamState& stream_state);

  std::array<std::unique_ptr<Worker>, kNumHostWorkers> workers_;  // guarded by the engine's mutex
  std::mutex start_mutex_;
  std::vector<std::unique_ptr<StreamWorker>> stream_workers_;  // guarded by start_mutex_
  std::atomic<bool> runs_in_caller_{false};  // written with the mutex held; never set back to false
};

}  // namespace mxlite::engine
