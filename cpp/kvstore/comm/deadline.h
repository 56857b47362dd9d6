// Deadlines for waits on other processes.
#pragma once
#include <chrono>

namespace mxlite {

using Clock = std::chrono::steady_clock;

// Returns MXLITE_COMM_TIMEOUT in seconds (default 600). This is the limit of every wait for another
// process.
double comm_timeout();
// Returns the seconds without a sign of life after which a process counts as hung. The value is the
// timeout, but at most 60.
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

// Reads seconds from an environment variable. Throws a value error unless the variable holds a
// number of at least 0.
double env_seconds(const char* name, double fallback);

}  // namespace mxlite
