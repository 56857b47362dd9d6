// Lets Ctrl-C interrupt long operations on a file.
#pragma once
#include <chrono>

#include "cpp/engine/blocking.h"

namespace mxlite::io {

// Call operator() in each step without holding locks. Ten times a second, it releases the GIL for
// other Python threads, runs signal handlers and rethrows their exceptions.
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
