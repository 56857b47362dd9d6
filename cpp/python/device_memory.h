// Memory of devices that no array uses.
#pragma once
#include "cpp/core/device.h"

namespace mxlite::python {

// Returns the allocator's cached blocks of a device to the system.
void release_cached_memory(Device device);

}  // namespace mxlite::python
