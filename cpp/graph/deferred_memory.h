// Memory that a task allocates when it runs, so that queued tasks hold none. Otherwise a training
// loop, which queues the next forward while backward still runs, would hold the saved values of
// both at the same time.
#pragma once
#include <functional>

#include "cpp/ndarray/storage.h"

namespace mxlite::graph {

// The storage's data() stays null; only tasks of executables use such storages. `provide` returns
// memory of so many bytes, which is held as long as the storage lives; it is called in a task.
// Without it the memory comes from the CPU's allocator. On a GPU the memory is allocated inside the
// task, so it does not wait for queued tasks of other streams.
using ProvideFn = std::function<StorageRef()>;
StorageRef make_deferred_memory(Device device, size_t bytes, ProvideFn provide = nullptr);
bool is_deferred(const Storage& storage);
// Returns the memory, allocated by the first call. Tasks call it in the order of the storage's
// variable.
void* materialize(const Storage& storage);

}  // namespace mxlite::graph
