// The two threads of a stream. One thread runs the tasks that submit work. The other thread waits
// for the device and completes the tasks, so that submitting does not wait for the device.
#pragma once
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

class StreamWorker {
 public:
  // Call without the scheduler's mutex.
  StreamWorker(Scheduler& scheduler, StreamState& stream_state);
  // Joins the threads. No task may be in flight.
  ~StreamWorker();

 private:
  void issue();
  void complete();
  void end_threads();

  Scheduler& scheduler_;
  StreamState& stream_state_;
  std::thread completer_;
  std::thread issuer_;  // last members, so that threads start after all other members exist
};

}  // namespace mxlite::engine
