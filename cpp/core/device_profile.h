// Device events that the profiler has not fetched yet.
#pragma once
#include "cpp/core/profiler.h"

namespace mxlite {

// Start and stop recording single kernels if the accelerator supports that.
void start_device_profile();
void stop_device_profile();
// Appends the events, ordered by time within each stream, and counts lost events.
void take_device_profile(ProfileRecord& record);

}  // namespace mxlite
