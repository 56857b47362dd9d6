// Runs compiled graphs. launch.cc selects the way in which a call runs.
#pragma once
#include "cpp/graph/run/segments.h"

namespace mxlite::graph {

// Returns the graph's outputs, followed by the other values that a recorded call saves. `calls` is
// used only if the graph is cut into segments.
NDArrays launch(const CachedGraph::Compiled& entry, const Executable::LaunchArgs& call,
                const EagerCalls& calls);
NDArrays launch_backward(Executable& backward, const Executable::LaunchArgs& call);

}  // namespace mxlite::graph
