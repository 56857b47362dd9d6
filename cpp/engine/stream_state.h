// State of one stream in the scheduler: a queue of tasks that submit to it, a count of submitted
// work, and the work that the device has not finished. See Note [Stream tasks] in engine.h.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cpp/core/marked_stream.h"
#include "cpp/engine/collective_worker.h"

namespace mxlite::engine {

// The unfinished tasks of one worker.
struct WorkerQueue {
  bool in_order = false;  // for comm workers: only the oldest unfinished task may run
  Task* oldest = nullptr;
  Task* newest = nullptr;
  Task* ready_first = nullptr;  // not used when in_order
  Task* ready_last = nullptr;
  uint32_t num_ready = 0;
  Task* running = nullptr;  // task that runs on the worker's thread
  bool asleep = false;      // whether the thread waits on work_arrived
  bool stopping = false;
  StreamState* stream_state = nullptr;  // set for stream workers
  std::condition_variable work_arrived;

  // Returns whether no task is running or ready, so that a task run by the caller overtakes no
  // other task.
  bool idle() const {
    return in_order ? oldest == nullptr : running == nullptr && ready_first == nullptr;
  }
  void add_ready(Task& task);  // not called when in_order
  bool has_work() const;
  Task* take_work();  // requires has_work(); marks the task as running
  void wake();
};

struct StreamState {
  StreamState(WorkerKind kind, int device_index, Stream& device_stream);

  // Makes this stream wait for a point of another stream unless it has already waited for a later
  // point. Call on the thread that submits to this stream.
  void wait_for(StreamPoint point);
  StreamKind kind() const;

  // A mark in the stream after all work numbered up to `number`. An object without a mark stands
  // for the whole stream.
  struct NumberedMark {
    uint64_t number = 0;
    std::shared_ptr<MarkedStream::Mark> mark;
  };
  // Increments and returns the count after a task has submitted its work. Call this function and
  // mark_next_count on the thread that submits to the stream.
  uint64_t count_work() noexcept;
  // Makes the next count_work mark the stream. Has no effect if the stream has no marks.
  void mark_next_count() { marks_next_ = marked_ != nullptr; }
  // Returns the first mark after the work with this number, if such a mark exists. Thread-safe.
  NumberedMark find_mark(uint64_t number);
  // Blocks until the stream has done the work up to the mark. Without a mark, waits for all
  // submitted work.
  void synchronize(const NumberedMark& until);

  const WorkerKind worker;
  const int device;
  Stream& stream;
  // Incremented after each task or allocation is submitted to the stream. All work numbered up to
  // the count is in the stream.
  std::atomic<uint64_t> count{0};
  // All work numbered up to this value is done before any work that is submitted to the device's
  // compute stream from now on.
  std::atomic<uint64_t> before_compute{0};
  std::atomic<bool> has_worker{false};
  std::mutex filling;  // held while submitting if any thread may do so (naive engine)

  // Guarded by the scheduler's mutex.
  WorkerQueue queue;
  Task* issued_first = nullptr;  // first task whose work is in progress on the device
  Task* issued_last = nullptr;
  std::condition_variable issued;

 private:
  void add_mark(uint64_t number);

  MarkedStream* const marked_;                     // the stream, or null if it has no marks
  bool marks_next_ = false;                        // used only by the submitting thread
  std::map<const StreamState*, uint64_t> waited_;  // used only by the submitting thread
  std::mutex marks_mutex_;
  std::deque<NumberedMark> marks_;  // guarded by marks_mutex_; the latest marks in ascending order
};

class StreamTable {
 public:
  StreamState& get(WorkerKind worker, int device);  // creates the state on first use
  // Call with the mutex held.
  void for_each(auto&& visit) {
    for (auto& [key, stream_state] : streams_) visit(*stream_state);
  }

  std::mutex mutex;  // locked after the scheduler's mutex

 private:
  std::map<std::pair<WorkerKind, int>, std::unique_ptr<StreamState>> streams_;  // guarded by mutex
  // States of the first devices, for reading without the mutex.
  static constexpr size_t kKinds = kNumStreamKinds + 1;  // includes kCollectiveStream
  std::array<std::atomic<StreamState*>, 16 * kKinds> fast_{};
};

}  // namespace mxlite::engine
