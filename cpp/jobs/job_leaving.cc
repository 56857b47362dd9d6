// The end of a job: ranks that shut it down, and ranks that leave while others continue.
#include <algorithm>

#include "cpp/base/error.h"
#include "cpp/jobs/job.h"
#include "cpp/jobs/stall_text.h"

namespace mxlite::jobs {

void Job::request_stop() {
  std::lock_guard lock(mutex_);
  stop_requested_ = true;
  control_->ring();
}

void Job::request_leave() {
  std::lock_guard lock(mutex_);
  leave_requested_ = true;
  last_operation_ = Clock::now();  // a rank that leaves waits from now on
  control_->ring();
}

double Job::idle_seconds() {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(Clock::now() - last_operation_).count();
}

// All ranks read the same frames, so they come to the same result in the same round. A call counts
// only if it lacks the rank in two rounds in a row, because a rank may have shown its input in a
// slot without having announced the call. If the call was complete before the first of the rounds,
// the other ranks have withdrawn it in the second one. If it was not complete, the rank that has
// left sees the announcement in the first round, and announces the call in the second one.
bool Job::waits_for_left() {
  if (left_.empty()) return false;
  const auto lacks_left = [this](const auto& open) {
    return std::any_of(open.missing.begin(), open.missing.end(), [this](int r) {
      return std::find(left_.begin(), left_.end(), r) != left_.end();
    });
  };
  std::set<std::pair<CallChannel, uint64_t>> lack_left;
  for (const OrderedCalls::Waiting& call : calls_.waiting(-1))  // however short the wait has been
    if (lacks_left(call)) lack_left.insert({call.channel, call.number});
  lack_left.swap(lacks_left_);
  if (std::any_of(lack_left.begin(), lack_left.end(),
                  [this](const auto& call) { return lacks_left_.contains(call); }))
    return true;
  const std::vector<Stall> named = negotiator_.stalls(-1);
  return std::any_of(named.begin(), named.end(), lacks_left);
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

}  // namespace mxlite::jobs
