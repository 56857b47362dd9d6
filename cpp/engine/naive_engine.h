// Runs every task inside push: the first step of debugging. Same order, same names for the
// profiler, same failures on values; a failure is also raised by the push that met it.
#pragma once
#include "cpp/engine/graph_engine.h"

namespace mxlite::engine {

class NaiveEngine final : public GraphEngine {
 public:
  void push(TaskRef task, const Access& access, const PushOptions& options) override {
    scheduler_.open_lane(options);
    push_and_run(std::unique_lock(scheduler_.mutex), std::move(task), access, options);
  }
  void stop() override {}
  bool runs_in_caller() const override { return true; }
};

}  // namespace mxlite::engine
