#include "cpp/engine/lane.h"

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"

namespace mxlite::engine {
namespace {

Stream& stream_of_accelerator(int device, StreamKind kind) {
  return require_accelerator("engine", {DeviceType::kCUDA, device}).stream(device, kind);
}

std::atomic<StreamSource> source{&stream_of_accelerator};

StreamKind stream_kind(WorkerKind worker) {
  return static_cast<StreamKind>(static_cast<int>(worker) - static_cast<int>(WorkerKind::kCompute));
}

}  // namespace

void set_stream_source(StreamSource given) { source = given ? given : &stream_of_accelerator; }

bool WorkerQueue::has_work() const {
  if (!in_order) return ready_first != nullptr;
  return oldest && oldest->unmet_ == 0 && !oldest->running_ && !oldest->run_by_caller_;
}

Task* WorkerQueue::take_work() {
  running = in_order ? oldest : ready_first;
  if (!in_order) {
    ready_first = running->next_ready_;
    if (!ready_first) ready_last = nullptr;
  }
  running->running_ = true;
  return running;
}

void WorkerQueue::wake() {
  if (!asleep) return;
  asleep = false;
  work_arrived.notify_one();
}

Lane::Lane(WorkerKind kind, int device_index, Stream& device_stream)
    : worker(kind), device(device_index), stream(device_stream) {
  queue.lane = this;
}

void Lane::wait_for(StreamPoint point) {
  uint64_t& waited = waited_[point.lane];
  if (waited >= point.number) return;
  const uint64_t count_before = point.lane->count.load(std::memory_order_acquire);
  stream.wait_for(point.lane->stream);
  waited = count_before;
}

Lane& LaneTable::get(WorkerKind worker, int device) {
  MX_CHECK_KIND(!in_forked_child(), ErrorKind::kDevice, "gpu(", device,
                ") cannot be used in a forked process: CUDA does not survive fork; start workers ",
                "with multiprocessing_context='spawn'");
  const size_t i =
      static_cast<size_t>(device) * kNumStreamKinds + static_cast<size_t>(stream_kind(worker));
  if (i < fast_.size())
    if (Lane* lane = fast_[i].load(std::memory_order_acquire)) return *lane;
  Stream& stream = source.load()(device, stream_kind(worker));
  std::lock_guard lock(mutex);
  auto& lane = lanes_[{worker, device}];
  if (!lane) lane = std::make_unique<Lane>(worker, device, stream);
  if (i < fast_.size()) fast_[i].store(lane.get(), std::memory_order_release);
  return *lane;
}

}  // namespace mxlite::engine
