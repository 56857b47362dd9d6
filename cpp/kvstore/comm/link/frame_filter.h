// A filter between the sockets of a process and its handlers. Tests use it to simulate unreliable
// networks.
#pragma once
#include <cstdint>
#include <functional>

#include "cpp/kvstore/comm/link/frame.h"

namespace mxlite {

using ConnectionId = uint64_t;  // never reused; 0 means no connection

// The reactor thread calls the functions. Frames that start a connection bypass the filter.
class FrameFilter {
 public:
  using Pass = std::function<void(ConnectionId, Frame)>;
  virtual ~FrameFilter() = default;
  // Called for each complete, checked frame. Calls `pass` for each frame that handlers should get.
  virtual void arrived(ConnectionId connection, Frame frame, const Pass& pass) = 0;
  // Called every 20 ms. Calls `pass` for frames that the filter has delayed.
  virtual void tick(const Pass& pass) = 0;
};

}  // namespace mxlite

// Returns a new filter for a reactor, or null. Only tests define this function (preloaded or
// linked).
extern "C" [[gnu::weak]] mxlite::FrameFilter* mxlite_make_frame_filter();
