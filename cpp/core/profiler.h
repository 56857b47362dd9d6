// Records events between start and stop. Every thread writes to a separate buffer, which take()
// empties. Times are those of CLOCK_MONOTONIC, like Python's time.perf_counter_ns.
#pragma once
#include <cstdint>
#include <vector>

#include "cpp/core/profile_hooks.h"

namespace mxlite {

struct ProfileEvent {
  int64_t nanoseconds = 0;
  int64_t value = 0;  // value of a counter
  const char* name = nullptr;
  // Number of the thread, counted from 0 in the order of first events. For a stream of a device,
  // numbers begin at 2^30.
  uint32_t thread = 0;
  ProfileKind kind = ProfileKind::kOperator;
  char phase = 'B';  // 'B' for begin, 'E' for end, 'C' for a counter
};

struct ProfilerOptions {
  uint32_t kinds = ~0u;  // bit i selects ProfileKind i
  bool memory = true;    // whether to record the bytes in use after each operator
};

void start_profiler(const ProfilerOptions& options);
void stop_profiler();
bool profiler_runs();

struct ProfileRecord {
  std::vector<ProfileEvent> events;  // ordered by time within each thread
  uint64_t dropped = 0;              // number of events lost because a thread's buffer was full
};
ProfileRecord take_profile();

}  // namespace mxlite
