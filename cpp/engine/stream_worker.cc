#include "cpp/engine/stream_worker.h"

#include <exception>
#include <string>
#include <utility>

#include "cpp/engine/worker.h"

namespace mxlite::engine {
namespace {

std::string thread_name(const StreamState& stream_state, const char* role) {
  const char* kind = stream_state.worker == WorkerKind::kCompute  ? "gpu"
                     : stream_state.worker == WorkerKind::kCopyIn ? "in"
                     : stream_state.worker == kCollectiveWorker   ? "sum"
                                                                  : "out";
  return kind + std::to_string(stream_state.device) + role;
}

}  // namespace

StreamWorker::StreamWorker(Scheduler& scheduler, StreamState& stream_state)
    : scheduler_(scheduler), stream_state_(stream_state) {
  completer_ = start_thread(thread_name(stream_state, "-end"), [this] { complete(); });
  try {
    issuer_ = start_thread(thread_name(stream_state, ""), [this] { issue(); });
  } catch (...) {
    end_threads();
    throw;
  }
}

StreamWorker::~StreamWorker() { end_threads(); }

void StreamWorker::end_threads() {
  {
    std::lock_guard lock(scheduler_.mutex);
    stream_state_.queue.stopping = true;
    stream_state_.queue.wake();
    stream_state_.issued.notify_one();
  }
  if (issuer_.joinable()) issuer_.join();
  completer_.join();
}

void StreamWorker::issue() {
  std::unique_lock lock(scheduler_.mutex);
  WorkerQueue& queue = stream_state_.queue;
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

Task* Scheduler::take_issued(StreamState& stream_state, StreamState::NumberedMark& end) {
  Task* const first = stream_state.issued_first;
  end = stream_state.find_mark(first->point_);
  Task* last = end.mark ? first : stream_state.issued_last;
  while (last->next_ready_ && last->next_ready_->point_ <= end.number) last = last->next_ready_;
  stream_state.issued_first = std::exchange(last->next_ready_, nullptr);
  if (!stream_state.issued_first) stream_state.issued_last = nullptr;
  return first;
}

// Waits until the stream has done all work of a batch, and completes the batch. A batch ends at a
// mark of the stream, so that dependents of the work before the mark do not wait for the work after
// the mark.
void StreamWorker::complete() {
  std::unique_lock lock(scheduler_.mutex);
  for (;;) {
    while (!stream_state_.issued_first) {
      if (stream_state_.queue.stopping) return;
      stream_state_.issued.wait(lock);
    }
    StreamState::NumberedMark end;
    Task* const batch = Scheduler::take_issued(stream_state_, end);
    lock.unlock();
    std::exception_ptr error;
    try {
      stream_state_.synchronize(end);
    } catch (...) {
      error = std::current_exception();
    }
    scheduler_.drop_kept_operands(batch);
    lock.lock();
    scheduler_.device_done(batch, error);
  }
}

}  // namespace mxlite::engine
