// What a piece of memory remembers about its users. Embedded in Storage. Tasks never point to a
// variable, so it may be destroyed while tasks that used it still run.
#pragma once
#include <atomic>
#include <cstdint>

#include "cpp/base/small_vector.h"
#include "cpp/engine/task.h"

namespace mxlite::engine {

class Var {
 public:
  Var() = default;
  Var(const Var&) = delete;
  Var& operator=(const Var&) = delete;

  // Grows with every push that writes; what was packed from an older version is stale. Lock-free.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  friend class Scheduler;

  // Guarded by the scheduler's mutex.
  TaskRef last_writer_;              // empty: no writer, or it is done and has not failed
  SmallVector<TaskRef, 2> readers_;  // since the last write; the finished are removed now and then
  size_t prune_at_ = 2;
  StreamPoint allocated_;  // device memory: when it became free for use
  std::atomic<uint64_t> version_{0};
};

}  // namespace mxlite::engine
