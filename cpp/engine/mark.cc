#include "cpp/engine/mark.h"

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

void mark_end_of_task() {
  const auto* scope = Scheduler::RunScope::innermost();
  if (scope && scope->stream_state()) scope->stream_state()->mark_next_count();
}

}  // namespace mxlite::engine
