// Runs compiled graphs: launch.cc chooses how.
#pragma once
#include "cpp/graph/run/segments.h"

namespace mxlite::graph {

// Returns the graph's outputs, and then the other values that a recorded call saves. `calls`: used
// if the graph is cut into segments.
NDArrays launch(const CachedGraph::Entry& entry, const Executable::Call& call,
                const EagerCalls& calls);
NDArrays launch_backward(Executable& backward, const Executable::Call& call);

}  // namespace mxlite::graph
