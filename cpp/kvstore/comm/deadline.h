// Deadlines for waits on other processes.
#pragma once
#include <chrono>
#include <string>

namespace mxlite {

using Clock = std::chrono::steady_clock;

// Returns MXLITE_COMM_TIMEOUT in seconds (600): every wait for another process ends after it.
double comm_timeout();
// A process without heartbeat for this long counts as hung: the timeout, at most 60 s.
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

// Reads a variable with a number of seconds of at least 0; throws a value error that names it.
double env_seconds(const char* name, double fallback);

}  // namespace mxlite
