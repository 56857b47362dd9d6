// Runs every task inside push, which simplifies debugging. Order, profiler names and failures of
// values are the same as in the threaded engine. In addition, push throws the task's failure.
#pragma once
#include "cpp/engine/graph_engine.h"

namespace mxlite::engine {

class NaiveEngine final : public GraphEngine {
 public:
  void push(TaskRef task, const Access& access, const PushOptions& options) override {
    scheduler_.open_stream(options);
    push_and_run(std::unique_lock(scheduler_.mutex), std::move(task), access, options);
  }
  void stop() override {}
  bool runs_in_caller() const override { return true; }
};

}  // namespace mxlite::engine
