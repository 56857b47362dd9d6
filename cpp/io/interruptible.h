// Lets Ctrl-C end long work on a file.
#pragma once
#include <chrono>

#include "cpp/engine/blocking.h"

namespace mxlite::io {

// Call operator() in each step, without locks: ten times a second other threads of Python may run,
// and it throws what a signal handler raised meanwhile.
class InterruptCheck {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < engine::kInterruptPeriod) return;
    last_ = now;
    const engine::BlockingScope lets_others_run;
    if (engine::is_interruptible()) engine::run_interrupt_hook();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace mxlite::io
