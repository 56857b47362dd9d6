// The streams in whose order memory of a device is allocated and freed.
#pragma once
#include "cpp/core/stream.h"
#include "cpp/engine/var.h"

namespace mxlite::engine {

// Returns the stream for which the memory of `var` was allocated.
StreamKind allocating_stream(const Var& var);

// Returns the stream in whose order the memory of `var` may be freed once no array and no task
// refers to it. Tasks of the compute stream drop their operands before the device has run them.
// Memory that they use is therefore freed in the order of the compute stream, which has waited for
// the allocation (Engine::allocated_on). Tasks of other workers drop their operands when they are
// done. If the compute stream has not waited for the allocation, none of its tasks uses the memory.
// In this case, the stream for which the memory was allocated frees it, because the free must not
// precede the allocation. An example is the result of a failed collective.
StreamKind freeing_stream(const Var& var);

}  // namespace mxlite::engine
