// Devices on which work has failed. CUDA then refuses all further work of the process on the
// device, with one error code for all calls. Tasks fail with the first recorded error instead.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <span>

#include "cpp/engine/failure.h"

namespace mxlite::engine {

// A task that the device had not finished when the device failed.
struct Suspect {
  const Task* task;
  uint64_t sequence;  // number of the task in order of push
};

class BrokenDevices {
 public:
  // Returns null if the device has not failed.
  FailureRef find(int device) const {
    if (!any_.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto at = failures_.find(device);
    return at == failures_.end() ? nullptr : at->second;
  }
  // Records an error that the device reported, unless one is recorded already, and returns the
  // recorded one. suspects: the tasks that had not finished then, in the order of their push.
  FailureRef add(int device, const std::exception_ptr& error, std::span<const Suspect> suspects);

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;            // locked after the scheduler's
  std::map<int, FailureRef> failures_;  // guarded by mutex_
};

}  // namespace mxlite::engine
