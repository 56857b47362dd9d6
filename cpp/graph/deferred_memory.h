// Memory that a task allocates when it runs, so that queued tasks hold none. Otherwise a training
// loop, which queues the next forward while backward still runs, would hold the saved values of
// both at the same time. CPU only.
#pragma once
#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

// The storage's data() stays null; only tasks of executables use such storages.
StorageRef make_deferred_memory(Device device, size_t bytes);
bool is_deferred(const Storage& storage);
// Returns the memory, allocated by the first call. Tasks call it in the order of the storage's
// variable.
void* materialize(const Storage& storage);

}  // namespace mxlite::graph
