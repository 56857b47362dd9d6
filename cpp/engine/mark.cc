#include "cpp/engine/mark.h"

#include <utility>

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

void mark_end_of_task() {
  const auto* scope = Scheduler::RunScope::innermost();
  if (scope && scope->stream_state()) scope->stream_state()->mark_next_count();
}

Task* Scheduler::take_issued(StreamState& stream_state, StreamState::NumberedMark& end) {
  Task* const first = stream_state.issued_first;
  end = stream_state.find_mark(first->point_);
  Task* last = end.mark ? first : stream_state.issued_last;
  while (last->next_ready_ && last->next_ready_->point_ <= end.number) last = last->next_ready_;
  stream_state.issued_first = std::exchange(last->next_ready_, nullptr);
  if (!stream_state.issued_first) stream_state.issued_last = nullptr;
  return first;
}

}  // namespace mxlite::engine
