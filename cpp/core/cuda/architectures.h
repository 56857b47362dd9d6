// Says what this build was compiled for, and whether a device can run it.
#pragma once

namespace mxlite::cuda {

const char* compiled_architectures();  // "9.0"
// Returns whether kernels of this build can be loaded on the current device.
bool runs_on_current_device();

}  // namespace mxlite::cuda
