// Watches sums between the GPUs of this process, because no thread waits for these sums. Aborts
// sums that fail or take too long.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "cpp/core/marked_stream.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite {

class CollectiveWatch {
 public:
  struct Work {
    std::shared_ptr<DeviceGroup> group;
    MarkedStream* stream = nullptr;  // does the work between the two marks
    std::shared_ptr<MarkedStream::Mark> begin, end;
    std::optional<Clock::time_point> since;  // when the stream was first seen doing the work
  };

  CollectiveWatch();
  CollectiveWatch& operator=(CollectiveWatch&&) = delete;  // neither copied nor moved

  // Aborts the work and breaks its stream if the work fails or runs longer than
  // MXLITE_COMM_TIMEOUT. The time before the work begins does not count. Thread-safe.
  void add(Work work);

 private:
  void run();
  // Returns whether the work has ended.
  static bool look(Work& work);

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Work> works_;  // guarded by mutex_
  std::thread thread_;      // never joined, because the object exists until the process ends
};

}  // namespace mxlite
