// Records what happens between start and stop: every thread writes into a buffer of its own, which
// take() empties. Times are those of CLOCK_MONOTONIC, as Python's time.perf_counter_ns.
#pragma once
#include <cstdint>
#include <vector>

#include "cpp/core/profile_hooks.h"

namespace mxlite {

struct ProfileEvent {
  int64_t nanoseconds = 0;
  int64_t value = 0;  // value of a count
  const char* name = nullptr;
  // Threads count from 0 in the order of their first event; streams of devices from 2^30.
  uint32_t thread = 0;
  ProfileKind kind = ProfileKind::kOperator;
  char phase = 'B';  // begin, 'E'nd, 'C'ount
};

struct ProfilerOptions {
  uint32_t kinds = ~0u;  // bit i: ProfileKind i
  bool memory = true;    // bytes in use after each operator
};

void start_profiler(const ProfilerOptions& options);
void stop_profiler();
bool profiler_runs();

struct ProfileRecord {
  std::vector<ProfileEvent> events;  // in order of time for each thread
  uint64_t dropped = 0;              // events lost by threads whose buffer was full
};
ProfileRecord take_profile();

}  // namespace mxlite
