// One stream as the scheduler sees it: a queue of tasks that fill it, a count of what it has been
// given, and what the device still works on. Note [Stream tasks] in engine.h.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cpp/engine/engine.h"

namespace mxlite::engine {

// The unfinished tasks of one worker.
struct WorkerQueue {
  bool in_order = false;  // comm: the oldest unfinished task is the only one that may run
  Task* oldest = nullptr;
  Task* newest = nullptr;
  Task* ready_first = nullptr;  // not used when in_order
  Task* ready_last = nullptr;
  Task* running = nullptr;  // on the worker's own thread
  bool asleep = false;      // the thread waits on work_arrived
  bool stopping = false;
  Lane* lane = nullptr;  // of a stream worker
  std::condition_variable work_arrived;

  // Nothing runs or is ready, so that a task run by the caller overtakes nobody.
  bool idle() const {
    return in_order ? oldest == nullptr : running == nullptr && ready_first == nullptr;
  }
  bool has_work() const;
  Task* take_work();  // requires has_work(); marks the task as running
  void wake();
};

struct Lane {
  Lane(WorkerKind kind, int device_index, Stream& device_stream);

  // Makes this stream wait for the point, if it has not waited for a later one. By the thread that
  // fills the stream.
  void wait_for(StreamPoint point);

  const WorkerKind worker;
  const int device;
  Stream& stream;
  // Grows behind every piece of work that the stream gets (tasks, allocations), so work with a
  // number up to the count is in the stream.
  std::atomic<uint64_t> count{0};
  std::atomic<bool> has_worker{false};
  std::mutex filling;  // held by the thread that fills the stream where that may be any (naive)

  // Guarded by the scheduler's mutex.
  WorkerQueue queue;
  Task* issued_first = nullptr;  // what the device works on, not yet taken by the completing thread
  Task* issued_last = nullptr;
  std::condition_variable issued;

 private:
  std::map<const Lane*, uint64_t> waited_;  // by the thread that fills the stream
};

class LaneTable {
 public:
  Lane& get(WorkerKind worker, int device);  // made on first use
  // With the mutex held.
  template <class F>
  void for_each(F&& visit) {
    for (auto& [key, lane] : lanes_) visit(*lane);
  }

  std::mutex mutex;  // taken behind the scheduler's

 private:
  std::map<std::pair<WorkerKind, int>, std::unique_ptr<Lane>> lanes_;  // guarded by mutex
  // Lanes of the first devices, which are read without the mutex.
  std::array<std::atomic<Lane*>, 16 * kNumStreamKinds> fast_{};
};

}  // namespace mxlite::engine
