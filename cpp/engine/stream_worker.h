// The two threads of a stream: one runs the tasks that submit work, the other waits for the device
// and completes them, so that submitting never waits.
#pragma once
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

class StreamWorker {
 public:
  // Requires that the scheduler's mutex is not held.
  StreamWorker(Scheduler& scheduler, StreamState& stream_state);
  // Requires that nothing is in flight; joins the threads.
  ~StreamWorker();

 private:
  void issue();
  void complete();
  void end_threads();

  Scheduler& scheduler_;
  StreamState& stream_state_;
  std::thread completer_;
  std::thread issuer_;  // last members: they start after the others are constructed
};

}  // namespace mxlite::engine
