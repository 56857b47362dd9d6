// Ends a job: because ranks shut it down, because all ranks leave it, or because a rank waits too
// long.
#include <algorithm>
#include <cstdio>
#include <map>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/jobs/job.h"

namespace mxlite::jobs {
namespace {

constexpr double kLongestStall = 3600;
constexpr double kCheckSeconds = 0.5;
constexpr size_t kNamesInWarning = 6;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Returns a warning that lists for each rank the operations that the rank has not announced for
// `seconds`.
std::string stall_warning(const std::vector<Stall>& stalls, double seconds) {
  std::map<int, std::vector<std::string>> by_rank;
  for (const Stall& stall : stalls)
    for (const int r : stall.missing) by_rank[r].push_back(stall.name);
  std::string text = str(
      "mxlite: one or more tensors were submitted by some ranks and are awaited from others for "
      "more than ",
      seconds,
      " seconds. Maybe the ranks do not call the same operations, or a rank works or sleeps for "
      "long.\nStalled ranks:");
  for (const auto& [r, names] : by_rank) {
    text += str("\n", r, ": [");
    for (size_t i = 0; i < names.size() && i < kNamesInWarning; ++i)
      text += str(i ? ", " : "", names[i]);
    text += names.size() > kNamesInWarning ? " ...]" : "]";
  }
  return text;
}

}  // namespace

void Job::request_stop() {
  std::lock_guard lock(mutex_);
  stop_requested_ = true;
  control_->ring();
}

void Job::request_leave() {
  std::lock_guard lock(mutex_);
  leave_requested_ = true;
  last_operation_ = Clock::now();  // a rank that leaves starts to wait now
  control_->ring();
}

double Job::idle_seconds() {
  std::lock_guard lock(mutex_);
  return seconds_since(last_operation_);
}

void Job::abort(const char* reason) noexcept {
  control_->fail_all(reason);
  control_->ring();
}

bool Job::lost() {
  std::lock_guard lock(mutex_);
  return ended_ && (lost_ || stalled_);
}

bool Job::ended() {
  std::lock_guard lock(mutex_);
  return ended_;
}

// Returns the same result on all ranks in the same round, because all ranks read the same frames.
bool Job::waits_for_left() {
  if (left_.empty()) return false;
  if (ordered_.lacks(left_)) return true;
  const std::vector<Stall> named = negotiation_->stalls(-1);
  return std::any_of(named.begin(), named.end(),
                     [this](const Stall& one) { return have_common_rank(one.missing, left_); });
}

void Job::end_if_left(std::vector<int> shutdown, const std::vector<int>& leaving) {
  left_.insert(left_.end(), leaving.begin(), leaving.end());
  ranks_have_left_ = !left_.empty();
  const bool all_left = left_.size() == static_cast<size_t>(size);
  std::vector<int> ended = std::move(shutdown);
  if (all_left || waits_for_left()) ended.insert(ended.end(), left_.begin(), left_.end());
  if (ended.empty()) return;
  std::sort(ended.begin(), ended.end());
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  end(str("the job has been shut down by ", ranks_text(ended),
          ": it has ended or has called shutdown(), and takes part in no further operation")
          .c_str());
}

void Job::check_stalls() {
  if (rank != 0 || (!negotiation_->is_busy() && !ordered_.has_waiting())) return;
  if (seconds_since(stalls_checked_) < kCheckSeconds) return;
  stalls_checked_ = Clock::now();
  double limit = options.stall_shutdown;
  if (limit <= options.stall_warning)
    limit = env_string("MXLITE_COMM_TIMEOUT", "").empty() ? kLongestStall : comm_timeout();
  if (!stalls(limit).empty()) give_up_ = true;
  if (options.stall_warning <= 0 || seconds_since(stalls_warned_) < options.stall_warning) return;
  const std::vector<Stall> found = stalls(options.stall_warning);
  if (found.empty()) return;
  stalls_warned_ = Clock::now();
  std::fprintf(stderr, "%s\n", stall_warning(found, options.stall_warning).c_str());
}

void Job::give_up() {
  std::string text =
      "rank 0 has given up waiting (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, "
      "MXLITE_COMM_TIMEOUT):";
  for (const Stall& stall : stalls(0))
    text += str(" '", stall.name, "' misses ", ranks_text(stall.missing), " since ",
                static_cast<int64_t>(stall.seconds), " s;");
  text.back() = '.';
  end(text.c_str());
}

std::vector<Stall> Job::stalls(double longer_than) const {
  std::vector<Stall> found = negotiation_->stalls(longer_than);
  std::ranges::move(ordered_.stalls(longer_than), std::back_inserter(found));
  return found;
}

void Job::end(const char* reason) noexcept {
  const std::exception_ptr cause = communicator_error(reason);
  std::vector<OperationRef> inbox;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    cause_ = cause;
    inbox.swap(inbox_);
  }
  ordered_.end(cause);
  negotiation_->end(cause);
  // After an error within a step, some operations are only in fresh_.
  for (const auto* operations : {&inbox, &fresh_}) notify(*operations, cause);
  fresh_.clear();
}

}  // namespace mxlite::jobs
