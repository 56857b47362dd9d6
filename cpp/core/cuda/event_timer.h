// The profiler's marks, implemented with CUDA events.
#pragma once
#include <cuda_runtime_api.h>

#include <map>

#include "cpp/core/device_timer.h"

namespace mxlite::cuda {

class EventTimer final : public DeviceTimer {
 public:
  std::shared_ptr<Mark> mark(Stream& stream) override;
  int64_t nanoseconds(const std::shared_ptr<Mark>& mark) override;

 private:
  struct Event;
  // An event whose time on the host's clock is known. Times of other events of the device are
  // measured from this event.
  struct Anchor {
    std::shared_ptr<Event> event;
    int64_t nanoseconds = 0;
  };
  static Anchor make_anchor(int device);

  std::map<int, Anchor> anchors_;  // the key is the device
};

}  // namespace mxlite::cuda
