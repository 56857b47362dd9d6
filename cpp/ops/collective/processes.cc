#include "cpp/ops/collective/processes.h"

#include <algorithm>
#include <atomic>

#include "cpp/base/error.h"

namespace mxlite::collective {
namespace {
std::atomic<Processes*> provided{nullptr};
}  // namespace

bool ProcessGroup::has(int64_t r) const {
  return std::find(ranks.begin(), ranks.end(), r) != ranks.end();
}

void set_processes(Processes* processes) { provided = processes; }

Processes* running_processes() {
  Processes* processes = provided;
  return processes && processes->running() ? processes : nullptr;
}

ProcessGroup group_of(const char* op, int32_t process_set) {
  ProcessGroup group;
  const Processes* processes = nullptr;
  try {
    processes = running_processes();
    if (processes) group = processes->group(process_set);
  } catch (Error& error) {
    error.add_context(str("in ", op));
    throw;
  }
  if (!processes) {
    MX_CHECK(process_set == 0, op,
             ": process set must be 0, as this process has joined no job, got ", process_set);
    return {{0}, 0};
  }
  MX_CHECK(group.has(group.rank), op, ": process set ", process_set,
           " does not contain this process, rank ", group.rank);
  return group;
}

}  // namespace mxlite::collective
