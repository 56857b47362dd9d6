#include "cpp/engine/graph_engine.h"

#include <optional>

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/fork.h"
#include "cpp/engine/written.h"

namespace mxlite::engine {

GraphEngine::GraphEngine() { ForkHandlers::add(*this); }

GraphEngine::~GraphEngine() { ForkHandlers::remove(*this); }

void GraphEngine::wait(Var& var) {
  std::unique_lock lock(scheduler_.mutex);
  TaskRef writer = scheduler_.last_writer(var);
  if (!writer) return;
  scheduler_.check_may_wait(*writer);
  scheduler_.sleep_until_done(lock, *writer);
  if (FailureRef failure = scheduler_.see_failure(*writer)) {
    lock.unlock();
    std::rethrow_exception(failure->error);
  }
}

void GraphEngine::wait_for_write(Var& var) {
  std::unique_lock lock(scheduler_.mutex);
  const std::vector<TaskRef> users = scheduler_.unfinished_users(var);
  for (const TaskRef& user : users) scheduler_.check_may_wait(*user);
  for (const TaskRef& user : users) scheduler_.sleep_until_done(lock, *user);
}

bool GraphEngine::are_written(std::span<Var* const> vars) {
  std::lock_guard lock(scheduler_.mutex);
  return scheduler_.dependencies_met({vars, {}, {}});
}

bool are_written(Engine& engine, std::span<Var* const> vars) {
  return dynamic_cast<GraphEngine&>(engine).are_written(vars);
}

void GraphEngine::host_wrote(Var& var) {
  std::lock_guard lock(scheduler_.mutex);
  scheduler_.host_wrote(var);
}

void GraphEngine::host_wrote_part(Var& var) {
  std::lock_guard lock(scheduler_.mutex);
  scheduler_.raise_version(var);
}

void host_wrote_part(Engine& engine, Var& var) {
  dynamic_cast<GraphEngine&>(engine).host_wrote_part(var);
}

void GraphEngine::wait_all() {
  std::unique_lock lock(scheduler_.mutex);
  scheduler_.check_may_wait_for_all();
  scheduler_.sleep_until_empty(lock);
  if (FailureRef failure = scheduler_.take_unseen_failure()) {
    lock.unlock();
    std::rethrow_exception(failure->error);
  }
}

bool GraphEngine::drain() {
  if (in_task()) return false;
  std::unique_lock lock(scheduler_.mutex);
  scheduler_.sleep_until_empty(lock);
  return true;
}

void GraphEngine::allocated_on(Var& var, WorkerKind worker, int device) {
  StreamState& stream_state = scheduler_.stream_state(worker, device);
  Scheduler::set_allocated(var, {&stream_state, ++stream_state.count});
}

EngineStats GraphEngine::stats() const {
  std::lock_guard lock(scheduler_.mutex);
  return scheduler_.stats();
}

void GraphEngine::cancel_queued(const std::string& reason) {
  const auto failure =
      make_ref<Failure>(std::make_exception_ptr(Error(ErrorKind::kError, reason)), 0);
  std::lock_guard lock(scheduler_.mutex);
  scheduler_.cancel_queued(failure);
}

void GraphEngine::push_and_run(std::unique_lock<std::mutex> lock, TaskRef task,
                               const Access& access, const PushOptions& options) {
  scheduler_.check_may_wait_for_dependencies(access, options);
  scheduler_.admit(task, access, options, /*run_by_caller=*/true);
  scheduler_.sleep_until_ready(lock, *task);
  scheduler_.mark_running(*task);
  lock.unlock();
  bool ended = true;
  {
    std::optional<BlockingScope> blocking;
    if (!options.may_inline) blocking.emplace();
    if (is_stream_worker(options.worker))
      scheduler_.execute_and_synchronize(*task);
    else
      ended = scheduler_.execute(*task, /*on_worker=*/false);
  }
  lock.lock();
  if (ended) {
    scheduler_.complete(*task);
  } else {
    scheduler_.leave(*task);
    scheduler_.sleep_until_done(lock, *task);
  }
  if (FailureRef failure = scheduler_.see_failure(*task)) {
    lock.unlock();
    std::rethrow_exception(failure->error);
  }
}

}  // namespace mxlite::engine
