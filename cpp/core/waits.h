// Says whether a thread that submits work to a GPU may wait for it. The thread that carries out
// collectives must not: the work may need a process that is lost, which this thread notices.
#pragma once

namespace mxlite {

bool may_wait_for_work();

// While one lives, this thread must not wait.
class NoWaits {
 public:
  NoWaits();
  ~NoWaits();
  NoWaits(const NoWaits&) = delete;
  NoWaits& operator=(const NoWaits&) = delete;

 private:
  const bool before_;
};

}  // namespace mxlite
