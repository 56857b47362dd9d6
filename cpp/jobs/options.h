// Options of a job, and the agreement of its ranks on them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::jobs {

// All ranks use the settings of rank 0.
struct JobSettings {
  int64_t fusion_bytes = int64_t{128} << 20;
  int64_t fuse_below = INT64_MAX;  // larger tensors are not copied into a fusion buffer
  double cycle_ms = 1;             // pause between rounds of ranks on several hosts
  int64_t cache_capacity = 1024;   // names that are sent as numbers after the first time
};

struct JobOptions {
  std::string version;  // version of this mxlite; all ranks must have the same
  JobSettings settings;
  bool wait_for_cycle = false;  // rounds begin cycle_ms apart, even if none is needed
  double stall_warning = 60;    // seconds, 0: never
  double stall_shutdown = 0;    // seconds, 0: the timeout, if one was set
  std::string timeline;         // path of the file that rank 0 writes
  bool timeline_marks_cycles = false;
  std::vector<std::vector<int>> process_sets;  // in addition to the set of all ranks
};

// Collective: returns the options with the settings of rank 0. Throws a communicator error if the
// ranks have different versions or different process sets.
JobOptions agree(JobOptions mine, Communicator& all);

}  // namespace mxlite::jobs
