// Dependency state of one piece of memory, embedded in Storage. Tasks never point to a variable, so
// it may be destroyed while tasks that used it still run.
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

  // Incremented by every push that writes; values packed from older versions are stale. Lock-free.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  friend class Scheduler;

  // Guarded by the scheduler's mutex.
  TaskRef last_writer_;              // empty: no writer, or done without failure
  SmallVector<TaskRef, 2> readers_;  // since the last write; finished ones are pruned
  size_t prune_at_ = 2;
  StreamPoint allocated_;  // device memory: point at which it became usable
  std::atomic<uint64_t> version_{0};
};

}  // namespace mxlite::engine
