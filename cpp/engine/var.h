// Dependency state of one piece of memory, embedded in Storage. Tasks hold no pointer to a
// variable, so a variable may be destroyed before tasks that use it have ended.
#pragma once
#include <atomic>
#include <cstdint>

#include "cpp/base/small_vector.h"
#include "cpp/engine/task.h"

namespace mxlite::engine {

class Var {
 public:
  Var() = default;
  Var& operator=(Var&&) = delete;  // neither copied nor moved

  // Incremented by every push that writes. Values packed from older versions are outdated.
  // Lock-free.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  friend class Scheduler;

  // Guarded by the scheduler's mutex.
  TaskRef last_writer_;  // empty if there was no writer, or the writer ended without failure
  SmallVector<TaskRef, 2> readers_;  // readers since the last write; finished readers are removed
                                     // time to time
  size_t prune_at_ = 2;
  StreamPoint allocated_;  // for device memory: point in a stream at which it became usable
  std::atomic<uint64_t> version_{0};
};

}  // namespace mxlite::engine
