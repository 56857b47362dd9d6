#include "cpp/engine/threaded_engine.h"

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"

namespace mxlite::engine {

ThreadedEngine::~ThreadedEngine() { stop(); }

void ThreadedEngine::push(TaskRef task, const Access& access, const PushOptions& options) {
  if (is_stream_worker(options.worker))
    start_stream_worker(scheduler_.stream_state(options.worker, options.device));
  std::unique_lock lock(scheduler_.mutex);
  if (scheduler_.over_limit(options.bytes) && !in_task())
    scheduler_.sleep_until_below_limit(lock, options.bytes);
  if (runs_in_caller_) return push_and_run(std::move(lock), std::move(task), access, options);

  const bool inline_here = options.may_inline && !is_stream_worker(options.worker) &&
                           scheduler_.queue(options).idle() && scheduler_.dependencies_met(access);
  // The thread is started first, so that an error leaves the state unchanged.
  if (!inline_here && !is_stream_worker(options.worker)) {
    auto& worker = workers_[static_cast<size_t>(options.worker)];
    if (!worker) worker = std::make_unique<Worker>(scheduler_, options.worker);
  }
  scheduler_.admit(task, access, options, inline_here);
  if (!inline_here) {
    if (scheduler_.ready(*task)) scheduler_.enqueue(*task);
    return;
  }
  scheduler_.mark_running(*task);
  lock.unlock();
  const bool ended = scheduler_.execute(*task, /*on_worker=*/false);
  lock.lock();
  ended ? scheduler_.complete(*task) : scheduler_.leave(*task);
}

void ThreadedEngine::start_stream_worker(StreamState& stream_state) {
  if (stream_state.has_worker.load(std::memory_order_acquire)) return;
  std::lock_guard lock(start_mutex_);
  if (stream_state.has_worker.load(std::memory_order_relaxed) || runs_in_caller_) return;
  stream_workers_.push_back(std::make_unique<StreamWorker>(scheduler_, stream_state));
  stream_state.has_worker.store(true, std::memory_order_release);
}

void ThreadedEngine::stop() {
  std::unique_lock lock(scheduler_.mutex);
  if (runs_in_caller_) return;
  scheduler_.check_may_wait_for_all();
  // Repeats the wait, because another thread may push while this thread acquires the GIL.
  std::exception_ptr interrupt;
  while (scheduler_.stats().in_flight > 0) {
    try {
      scheduler_.sleep_until_empty(lock);
    } catch (...) {  // A signal handler has thrown: waits for running tasks and cancels all
                     // others.
      interrupt = std::current_exception();
      lock.unlock();
      cancel_queued("the program was interrupted while it waited for queued work at its end");
      lock.lock();
    }
  }
  runs_in_caller_ = true;
  auto workers = std::move(workers_);
  lock.unlock();
  BlockingScope blocking;
  for (auto& worker : workers) worker.reset();
  std::lock_guard start(start_mutex_);
  stream_workers_.clear();
  if (interrupt) std::rethrow_exception(interrupt);
}

void ThreadedEngine::after_fork_in_child() {
  runs_in_caller_ = true;
  for (auto& worker : workers_)
    worker.release();  // leaked, because the thread exists only in the
                       // parent
  for (auto& worker : stream_workers_) worker.release();
}

}  // namespace mxlite::engine
