// Events of devices that the profiler has not fetched yet.
#pragma once
#include "cpp/core/profiler.h"

namespace mxlite {

// Start and stop recording single kernels where the accelerator can.
void start_device_profile();
void stop_device_profile();
// Appends the events in order of time for each stream, and counts those that are lost.
void take_device_profile(ProfileRecord& record);

}  // namespace mxlite
