#include "cpp/graph/run/launch.h"

namespace mxlite::graph {

// Table of the ways in which a call runs; the first line that matches applies:
//
// | graph             | call                    | runs as                | see              |
// | ----------------- | ----------------------- | ---------------------- | ---------------- |
// | cut into segments | not recorded, in a job, | one task that runs all | joined_task      |
// | at host operators | more in push_joined     | segments               |                  |
// | and collectives   | any other               | a call of each segment | segment_run      |
// | not cut, or such  | backward with much      | a task for each        | program_segments |
// | a segment         | output, gradients are   | segment of the program |                  |
// |                   | wanted early            |                        |                  |
// |                   | any other               | one task               | executable       |
//
// A task runs the steps of a program (steps). On a GPU it records the steps when the same addresses
// occur again, and then replays the record (replay).

NDArrays launch(const CachedGraph::Compiled& entry, const Executable::LaunchArgs& call,
                const EagerCalls& calls) {
  if (const auto& segmented = entry.segmented) {
    if (!entry.recording)
      if (auto outputs = push_joined(segmented, call)) return std::move(*outputs);
    return call_segments(*segmented, call, calls);
  }
  return (entry.recorded ? entry.recorded->forward() : *entry.plain).launch(call);
}

NDArrays launch_backward(Executable& backward, const Executable::LaunchArgs& call) {
  if (segments_on() && backward.segments().size() > 1) return backward.launch_segments(call);
  return backward.launch(call);
}

}  // namespace mxlite::graph
