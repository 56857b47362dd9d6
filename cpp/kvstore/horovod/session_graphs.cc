// Carries out runs of executables with collectives (MXLITE_NCCL_GRAPHS). NCCL demands that a
// collective is part of a recorded graph on all ranks or on none, and that all launch what they
// have recorded together, so the ranks agree before each run.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/core/waits.h"
#include "cpp/kvstore/horovod/session.h"

namespace mxlite::horovod {
namespace {

constexpr size_t kTextBytes = 240;

// Says what a rank can do with a run, or has done; the problem is why it cannot.
struct Report {
  int32_t way = 0;
  int32_t transient = 0;
  Recordings recorded{};
  char problem[kTextBytes] = {};
};

// Runs fn; an error becomes the report's problem.
template <class Fn>
void attempt(Report& report, Fn&& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    std::strncpy(report.problem, *error.what() ? error.what() : "unknown error", kTextBytes - 1);
  }
}

std::vector<Report> exchange(Communicator& processes, const Report& mine) {
  std::vector<Report> all(static_cast<size_t>(processes.size()));
  processes.all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  return all;
}

// Returns the first problem with its rank; empty if there is none.
std::string problem_of(std::span<const Report> reports, std::span<const int> members) {
  for (size_t r = 0; r < reports.size(); ++r)
    if (*reports[r].problem) return str("rank ", members[r], ": ", reports[r].problem);
  return {};
}

// Returns the latest recording that all ranks have; 0 if there is none.
uint64_t common_recording(std::span<const Report> reports) {
  uint64_t latest = 0;
  for (const uint64_t number : reports[0].recorded)
    if (std::ranges::all_of(reports, [&](const Report& r) {
          return std::ranges::find(r.recorded, number) != r.recorded.end();
        }))
      latest = std::max(latest, number);
  return latest;
}

// The same on all ranks, which have the same reports.
GraphWay common_way(std::span<const Report> reports) {
  const auto is = [](GraphWay way) {
    return [way](const Report& r) { return r.way == static_cast<int32_t>(way); };
  };
  if (std::ranges::any_of(reports, is(GraphWay::kStepByStep))) return GraphWay::kStepByStep;
  return common_recording(reports) != 0 ? GraphWay::kReplay : GraphWay::kRecord;
}

}  // namespace

void Session::run_graph(OperationRef operation) {
  const Request& request = operation->request();
  groups_.at(request.set)->describe(request.name);
  std::string problem;
  DeviceCommunicator* const gpus = gpu_group(request.set, problem);
  if (!problem.empty()) {
    problem = str(request.name, ": ", problem);
    return notify({&operation, 1}, as_exception(problem.c_str()));
  }
  try {
    gpus->describe(request.name);
    GpuMemory memory(*gpus);
    memory.wait_for_allocations(StreamKind::kCopyIn);
    memory.wait_for_allocations(StreamKind::kCompute);
    submit_graph(operation, *gpus);
  } catch (const std::exception& e) {
    end_gpu_work(*gpus, e.what());
    notify({&operation, 1}, as_exception(e.what()));
    throw;
  }
}

void Session::submit_graph(OperationRef& operation, DeviceCommunicator& gpus) {
  const ProfileScope profile("graph", ProfileKind::kComm);
  const NoWaits no_waits;
  const Request& request = operation->request();
  Communicator& processes = *groups_.at(request.set);
  const std::vector<int>& members = negotiator_.members(request.set);
  GraphRun& run = *operation->graph;
  Stream& stream = gpus.stream();
  stream.enter();

  Report mine;
  attempt(mine, [&] {
    mine.way = static_cast<int32_t>(run.choose(stream, mine.recorded));
    if (!gpus.can_record()) mine.way = static_cast<int32_t>(GraphWay::kStepByStep);
  });
  const std::vector<Report> reports = exchange(processes, mine);
  std::string problem = problem_of(reports, members);
  GraphWay way = common_way(reports);
  const bool records = problem.empty() && way == GraphWay::kRecord;
  const uint64_t number = records ? operation->number : common_recording(reports);
  if (records) way = record_graph(*operation, gpus) ? GraphWay::kReplay : GraphWay::kStepByStep;
  if (problem.empty() && way == GraphWay::kReplay) {
    run.replay(stream, number);
  } else if (problem.empty()) {
    Report outcome;
    attempt(outcome, [&] { run.run_step_by_step(gpus, members); });
    if (run.group_failed()) fail(ErrorKind::kCommunicator, outcome.problem);
    problem = problem_of(exchange(processes, outcome), members);
  }
  {
    std::lock_guard lock(mutex_);
    ++stats_.responses;
    ++stats_.graph_calls;
    stats_.graphs_recorded += records && way == GraphWay::kReplay;
    stats_.graphs_replayed += problem.empty() && way == GraphWay::kReplay;
  }
  // The arrays stay until the GPU is done with them, after an error as well.
  std::exception_ptr error;
  if (!problem.empty()) error = as_exception(str(request.name, ": ", problem).c_str());
  gpus.when_done([operation, error](std::exception_ptr lost) {
    operation->graph = nullptr;  // The arrays are released before waiters wake.
    notify({&operation, 1}, lost ? std::move(lost) : error);
  });
}

// All ranks record or none: returns the same on all of them.
bool Session::record_graph(const NamedOperation& operation, DeviceCommunicator& gpus) {
  const Request& request = operation.request();
  const std::vector<int>& members = negotiator_.members(request.set);
  GraphRun& run = *operation.graph;
  gpus.add_user(run.recordings());
  Report mine;
  attempt(mine, [&] {
    std::string why;
    bool transient = false;
    if (run.record(gpus, members, operation.number, why, transient)) return;
    mine.transient = transient;
    fail(ErrorKind::kDevice, why);
  });
  if (run.group_failed()) fail(ErrorKind::kCommunicator, mine.problem);
  const std::vector<Report> reports = exchange(*groups_.at(request.set), mine);
  const std::string problem = problem_of(reports, members);
  if (problem.empty()) return true;
  if (!*mine.problem) run.drop_recording(operation.number);
  const bool transient =
      std::ranges::all_of(reports, [](const Report& r) { return !*r.problem || r.transient != 0; });
  if (!transient && !*mine.problem)
    std::fprintf(stderr, "mxlite: %s is not recorded, on all ranks: %s\n", request.name.c_str(),
                 problem.c_str());
  return false;
}

}  // namespace mxlite::horovod
