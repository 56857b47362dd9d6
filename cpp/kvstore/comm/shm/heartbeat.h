// A thread of each process regularly writes the current time to shared memory that other processes
// read. If the process is stopped or dead, the time does not change. If the process is busy, the
// time still changes.
#pragma once
#include <atomic>
#include <cstdint>

namespace mxlite {

int64_t monotonic_ns();  // all processes of a host use the same clock

// Makes the thread write the time to `place` during the object's lifetime. `place` must outlive the
// object.
class Heartbeat {
 public:
  explicit Heartbeat(std::atomic<int64_t>& place);
  ~Heartbeat();
  Heartbeat& operator=(Heartbeat&&) = delete;  // neither copied nor moved

 private:
  std::atomic<int64_t>& place_;
};

}  // namespace mxlite
