// The end of a session: ranks that shut it down, and ranks that leave while others continue.
#include <algorithm>

#include "cpp/base/error.h"
#include "cpp/kvstore/horovod/session.h"
#include "cpp/kvstore/horovod/stall_text.h"

namespace mxlite::horovod {

void Session::request_stop() {
  std::lock_guard lock(mutex_);
  stop_requested_ = true;
  control_->ring();
}

void Session::request_leave() {
  std::lock_guard lock(mutex_);
  leave_requested_ = true;
  last_operation_ = Clock::now();  // a rank that leaves waits from now on
  control_->ring();
}

double Session::idle_seconds() {
  std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(Clock::now() - last_operation_).count();
}

// All ranks read the same frames, so they come to the same result in the same round.
bool Session::waits_for_left() const {
  if (left_.empty()) return false;
  const auto has_left = [this](int r) {
    return std::find(left_.begin(), left_.end(), r) != left_.end();
  };
  const std::vector<Stall> open = stalls(-1);  // however short the wait has been
  return std::any_of(open.begin(), open.end(), [&](const Stall& one) {
    return std::any_of(one.missing.begin(), one.missing.end(), has_left);
  });
}

void Session::end_if_left(std::vector<int> shutdown, const std::vector<int>& leaving) {
  // A call may be complete in slots while its announcement has not been withdrawn yet. A rank that
  // leaves has shown its inputs before, so the others withdraw at the latest in the next round, and
  // only then do announced calls count that lack the rank.
  const bool waits = waits_for_left();
  left_.insert(left_.end(), leaving.begin(), leaving.end());
  left_in_last_round_ = !leaving.empty();
  ranks_have_left_ = !left_.empty();
  const bool all_left = left_.size() == static_cast<size_t>(size);
  std::vector<int> ended = std::move(shutdown);
  if (all_left || waits) ended.insert(ended.end(), left_.begin(), left_.end());
  if (ended.empty()) return;
  std::sort(ended.begin(), ended.end());
  ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
  end(str("the job has been shut down by ", ranks_text(ended),
          ": it has ended or has called shutdown(), and takes part in no further operation")
          .c_str());
}

}  // namespace mxlite::horovod
