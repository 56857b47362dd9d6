#include "cpp/engine/stream_state.h"

#include <algorithm>
#include <utility>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/engine/deferred.h"

namespace mxlite::engine {
namespace {

constexpr size_t kMostMarks = 64;  // a stream has few marks whose work is in progress

Stream& stream_of_accelerator(int device, StreamKind kind) {
  return require_accelerator("engine", device).stream(device, kind);
}

std::atomic<StreamSource> source{&stream_of_accelerator};

StreamKind stream_kind(WorkerKind worker) {
  return static_cast<StreamKind>(static_cast<int>(worker) - static_cast<int>(WorkerKind::kCompute));
}

}  // namespace

void set_stream_source(StreamSource given) { source = given ? given : &stream_of_accelerator; }

// Adds a task to the ready list. If many host tasks are ready, they run in push order.
// Otherwise a program that pushes many steps ahead would run the first operators of all
// steps before the last operators of the first step, and their results would occupy
// memory. No task overtakes a deferred task, because other processes wait for deferred
// tasks.
void WorkerQueue::add_ready(Task& task) {
  constexpr uint32_t kFew = 8;
  Task** next = ready_last ? &ready_last->next_ready_ : &ready_first;
  if (++num_ready > kFew && !stream_state && task.sequence_ < ready_last->sequence_) {
    next = &ready_first;
    while (*next &&
           ((*next)->sequence_ < task.sequence_ || dynamic_cast<DeferredTask*>(*next) != nullptr))
      next = &(*next)->next_ready_;
  }
  task.next_ready_ = *next;
  if (!*next) ready_last = &task;
  *next = &task;
}

bool WorkerQueue::has_work() const {
  if (!in_order) return ready_first != nullptr;
  return oldest && oldest->unmet_ == 0 && !oldest->running_ && !oldest->run_by_caller_;
}

Task* WorkerQueue::take_work() {
  running = in_order ? oldest : ready_first;
  if (!in_order) {
    ready_first = running->next_ready_;
    if (!ready_first) ready_last = nullptr;
    --num_ready;
  }
  running->running_ = true;
  return running;
}

void WorkerQueue::wake() {
  if (!asleep) return;
  asleep = false;
  work_arrived.notify_one();
}

StreamState::StreamState(WorkerKind kind, int device_index, Stream& device_stream)
    : worker(kind),
      device(device_index),
      stream(device_stream),
      marked_(dynamic_cast<MarkedStream*>(&device_stream)) {
  queue.stream_state = this;
}

void StreamState::wait_for(StreamPoint point) {
  uint64_t& waited = waited_[point.stream_state];
  if (waited >= point.number) return;
  StreamState& producer = *point.stream_state;
  const NumberedMark found = marked_ ? producer.find_mark(point.number) : NumberedMark{};
  const uint64_t count_before =
      found.mark ? found.number : producer.count.load(std::memory_order_acquire);
  if (found.mark)
    marked_->wait_for_mark(*found.mark);
  else
    stream.wait_for(producer.stream);
  waited = count_before;
  if (worker == WorkerKind::kCompute && device == producer.device)
    producer.before_compute.store(count_before, std::memory_order_release);
}

uint64_t StreamState::count_work() noexcept {
  const uint64_t number = count.fetch_add(1, std::memory_order_acq_rel) + 1;
  try {
    if (std::exchange(marks_next_, false)) add_mark(number);
  } catch (...) {
    // The mark is optional. Without the mark, other streams wait for this whole stream, and their
    // wait reports the device's error.
  }
  return number;
}

void StreamState::add_mark(uint64_t number) {
  std::shared_ptr<MarkedStream::Mark> mark = marked_->mark();
  std::lock_guard lock(marks_mutex_);
  marks_.push_back({number, std::move(mark)});
  if (marks_.size() > kMostMarks) marks_.pop_front();
}

StreamState::NumberedMark StreamState::find_mark(uint64_t number) {
  std::lock_guard lock(marks_mutex_);
  const auto found = std::ranges::lower_bound(marks_, number, {}, &NumberedMark::number);
  return found == marks_.end() ? NumberedMark{} : *found;
}

void StreamState::synchronize(const NumberedMark& until) {
  until.mark ? marked_->synchronize_mark(*until.mark) : stream.synchronize();
}

StreamKind StreamState::kind() const { return stream_kind(worker); }

StreamState& StreamTable::get(WorkerKind worker, int device) {
  MX_CHECK_KIND(!in_forked_child(), ErrorKind::kDevice, "gpu(", device,
                ") cannot be used in a forked process: CUDA does not survive fork; start workers ",
                "with multiprocessing_context='spawn'");
  const size_t i = static_cast<size_t>(device) * kKinds + static_cast<size_t>(stream_kind(worker));
  if (i < fast_.size())
    if (StreamState* stream_state = fast_[i].load(std::memory_order_acquire)) return *stream_state;
  Stream& stream = source.load()(device, stream_kind(worker));
  std::lock_guard lock(mutex);
  auto& stream_state = streams_[{worker, device}];
  if (!stream_state) stream_state = std::make_unique<StreamState>(worker, device, stream);
  if (i < fast_.size()) fast_[i].store(stream_state.get(), std::memory_order_release);
  return *stream_state;
}

}  // namespace mxlite::engine
