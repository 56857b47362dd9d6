// Events of devices that the profiler has not fetched yet.
#pragma once
#include "cpp/core/profiler.h"

namespace mxlite {

// Appends the events in order of time for each stream, and counts those that are lost.
void take_device_profile(ProfileRecord& record);

}  // namespace mxlite
