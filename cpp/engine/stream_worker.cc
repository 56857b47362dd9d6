#include "cpp/engine/stream_worker.h"

#include <exception>
#include <string>
#include <utility>

#include "cpp/engine/worker.h"

namespace mxlite::engine {
namespace {

std::string thread_name(const Lane& lane, const char* role) {
  const char* kind = lane.worker == WorkerKind::kCompute  ? "gpu"
                     : lane.worker == WorkerKind::kCopyIn ? "in"
                                                          : "out";
  return kind + std::to_string(lane.device) + role;
}

}  // namespace

StreamWorker::StreamWorker(Scheduler& scheduler, Lane& lane) : scheduler_(scheduler), lane_(lane) {
  completer_ = start_thread(thread_name(lane, "-end"), [this] { complete(); });
  try {
    issuer_ = start_thread(thread_name(lane, ""), [this] { issue(); });
  } catch (...) {
    end_threads();
    throw;
  }
}

StreamWorker::~StreamWorker() { end_threads(); }

void StreamWorker::end_threads() {
  {
    std::lock_guard lock(scheduler_.mutex);
    lane_.queue.stopping = true;
    lane_.queue.wake();
    lane_.issued.notify_one();
  }
  if (issuer_.joinable()) issuer_.join();
  completer_.join();
}

void StreamWorker::issue() {
  std::unique_lock lock(scheduler_.mutex);
  WorkerQueue& queue = lane_.queue;
  for (;;) {
    while (!queue.has_work()) {
      if (queue.stopping) return;
      queue.asleep = true;
      queue.work_arrived.wait(lock);
    }
    Task& task = *queue.take_work();
    lock.unlock();
    scheduler_.execute(task, /*on_worker=*/true);
    lock.lock();
    scheduler_.issue(task);
  }
}

// Waits for all issued work at once: the stream's current point is not before any of it.
void StreamWorker::complete() {
  std::unique_lock lock(scheduler_.mutex);
  for (;;) {
    while (!lane_.issued_first) {
      if (lane_.queue.stopping) return;
      lane_.issued.wait(lock);
    }
    Task* const batch = std::exchange(lane_.issued_first, nullptr);
    lane_.issued_last = nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      lane_.stream.synchronize();
    } catch (...) {
      error = std::current_exception();
    }
    scheduler_.drop_kept_operands(batch);
    lock.lock();
    scheduler_.device_done(batch, error);
  }
}

}  // namespace mxlite::engine
