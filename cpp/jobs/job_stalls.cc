// Reports and cancels operations that some ranks do not call.
#include <cstdio>

#include "cpp/base/env.h"
#include "cpp/jobs/job.h"
#include "cpp/jobs/stall_text.h"

namespace mxlite::jobs {
namespace {

constexpr double kLongestStall = 3600;
constexpr double kCheckSeconds = 0.5;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string call_name(const CallChannel& channel, uint64_t number) {
  if (channel.is_message())
    return str("message ", number, " from rank ", channel.from, " to rank ", channel.to);
  return str("call ", number, " of process set ", channel.set);
}

}  // namespace

void Job::check_stalls() {
  if (rank != 0 || (open_ == 0 && !calls_.has_waiting())) return;
  if (seconds_since(stalls_checked_) < kCheckSeconds) return;
  stalls_checked_ = Clock::now();
  double limit = options_.stall_shutdown;
  if (limit <= options_.stall_warning)
    limit = env_string("MXLITE_COMM_TIMEOUT", "").empty() ? kLongestStall : comm_timeout();
  if (!stalls(limit).empty()) give_up_ = true;
  if (options_.stall_warning <= 0 || seconds_since(stalls_warned_) < options_.stall_warning) return;
  const std::vector<Stall> found = stalls(options_.stall_warning);
  if (found.empty()) return;
  stalls_warned_ = Clock::now();
  std::fprintf(stderr, "%s\n", stall_warning(found, options_.stall_warning).c_str());
}

std::vector<Stall> Job::stalls(double longer_than) const {
  std::vector<Stall> found = negotiator_.stalls(longer_than);
  for (OrderedCalls::Waiting& one : calls_.waiting(longer_than)) {
    const auto mine = ordered_.find({one.channel, one.number});
    found.push_back(
        {mine == ordered_.end() ? call_name(one.channel, one.number) : mine->second->request().name,
         0, one.seconds, std::move(one.missing)});
  }
  return found;
}

}  // namespace mxlite::jobs
