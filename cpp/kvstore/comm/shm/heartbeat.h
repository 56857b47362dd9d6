// One thread per process writes the time into shared memory that other processes read. The time
// stops if the process is stopped or dead, but not if it is busy.
#pragma once
#include <atomic>
#include <cstdint>

namespace mxlite {

int64_t monotonic_ns();  // same clock in all processes of a host

// Registers the place for its lifetime; the place must outlive the object.
class Heartbeat {
 public:
  explicit Heartbeat(std::atomic<int64_t>& place);
  ~Heartbeat();
  Heartbeat& operator=(Heartbeat&&) = delete;  // neither copied nor moved

 private:
  std::atomic<int64_t>& place_;
};

}  // namespace mxlite
