// The two threads of a stream: one runs the tasks that fill it, the other waits for the device and
// completes them, so that filling never waits.
#pragma once
#include <thread>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

class StreamWorker {
 public:
  // Without the scheduler's mutex held.
  StreamWorker(Scheduler& scheduler, Lane& lane);
  // Requires that nothing is in flight; joins the threads.
  ~StreamWorker();

 private:
  void issue();
  void complete();
  void end_threads();

  Scheduler& scheduler_;
  Lane& lane_;
  std::thread completer_;
  std::thread issuer_;  // last members: start when the others are there
};

}  // namespace mxlite::engine
