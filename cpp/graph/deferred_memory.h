// Memory that the task which fills it takes when it runs: what waits in the queue behind other work
// holds none yet. A training loop queues the next forward while backward still runs, and the values
// saved by both would be there at the same time otherwise. On the CPU.
#pragma once
#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

// data() of the storage stays null; only tasks of executables, which know, use it.
StorageRef make_deferred_memory(Device device, size_t bytes);
bool is_deferred(const Storage& storage);
// Its memory, taken by the first call. Tasks call it in the order of the storage's variable.
void* materialize(const Storage& storage);

}  // namespace mxlite::graph
