// Base of all engines: the scheduler, waits, and running a task in the calling thread.
#pragma once
#include <mutex>
#include <string>

#include "cpp/engine/engine.h"
#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

class GraphEngine : public Engine {
 public:
  GraphEngine();
  ~GraphEngine() override;

  void wait(Var& var) final;
  void wait_for_write(Var& var) final;
  void host_wrote(Var& var) final;
  void wait_all() final;
  bool drain() final;
  void allocated_on(Var& var, WorkerKind worker, int device) final;
  EngineStats stats() const final;
  bool are_written(std::span<Var* const> vars);  // see written.h
  void host_wrote_part(Var& var);                // see written.h
  // Makes tasks that have not begun fail with `reason`, because the program ends early.
  void cancel_queued(const std::string& reason);

 protected:
  // Waits for the dependencies, runs the task on this thread and throws its failure.
  void push_and_run(std::unique_lock<std::mutex> lock, TaskRef task, const Access& access,
                    const PushOptions& options);

  Scheduler scheduler_;

 private:
  friend struct ForkHandlers;
  virtual void after_fork_in_child() {}  // called by the child's only thread with the mutex held
};

}  // namespace mxlite::engine
