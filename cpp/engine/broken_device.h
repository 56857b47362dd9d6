// Devices on which work has failed. CUDA refuses all further work of the process on such a device
// and returns the same error code from all calls. Tasks therefore fail with the first recorded
// error.
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
  uint64_t sequence;  // number of the task in push order
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
  // Returns the error recorded for the device. If no error is recorded, records the given error.
  // `suspects` are the tasks, in push order, that had not finished when the error occurred.
  FailureRef add(int device, const std::exception_ptr& error, std::span<const Suspect> suspects);

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;            // locked after the scheduler's mutex
  std::map<int, FailureRef> failures_;  // guarded by mutex_
};

}  // namespace mxlite::engine
