// How long this process waits for others.
#pragma once
#include <chrono>
#include <string>

namespace mxlite {

using Clock = std::chrono::steady_clock;

// MXLITE_COMM_TIMEOUT in seconds: every wait for another process ends after it (600).
double comm_timeout();
// A process without heartbeat for this long counts as hung: the timeout, 60 s at most.
double silence_limit();

class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  bool over() const { return Clock::now() >= end_; }

 private:
  Clock::time_point end_;
};

// A variable with a number of seconds, zero or above; throws a value error that names it.
double env_seconds(const char* name, double fallback);

}  // namespace mxlite
