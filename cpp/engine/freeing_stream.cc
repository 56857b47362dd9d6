#include "cpp/engine/freeing_stream.h"

#include "cpp/engine/scheduler.h"

namespace mxlite::engine {

StreamKind allocating_stream(const Var& var) {
  const StreamState* const stream_state = Scheduler::allocated(var).stream_state;
  return stream_state ? stream_state->kind() : StreamKind::kCompute;
}

StreamKind freeing_stream(const Var& var) {
  const StreamPoint point = Scheduler::allocated(var);
  const StreamState* const stream_state = point.stream_state;
  if (!stream_state) return StreamKind::kCompute;
  const uint64_t before_compute = stream_state->before_compute.load(std::memory_order_acquire);
  return before_compute >= point.number ? StreamKind::kCompute : stream_state->kind();
}

}  // namespace mxlite::engine
