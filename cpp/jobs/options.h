// Options of a job, and the function by which its ranks agree on them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::jobs {

// All ranks use the settings of rank 0.
struct JobSettings {
  int64_t fusion_bytes = int64_t{128} << 20;
  int64_t fuse_below = INT64_MAX;  // tensors of more bytes are not copied into a fusion buffer
  double cycle_ms = 1;             // pause between rounds of ranks on several hosts
  int64_t cache_capacity = 1024;   // number of names that can be sent as numbers after their first
                                   // use
};

struct JobOptions {
  std::string version;  // version of this mxlite; must be equal on all ranks
  JobSettings settings;
  bool wait_for_cycle = false;  // whether rounds begin every cycle_ms even without operations
  double stall_warning = 60;    // seconds; 0 disables the warning
  double stall_shutdown = 0;    // seconds; 0 means the timeout, if one was set
  std::string timeline;         // path of the file that rank 0 writes
  bool timeline_marks_cycles = false;
  std::vector<std::vector<int>> process_sets;  // in addition to the process set of all ranks
};

// Collective. Returns the options with the settings of rank 0. Throws a communicator error if the
// ranks have different versions or different process sets.
JobOptions agree(JobOptions mine, Communicator& all);

}  // namespace mxlite::jobs
