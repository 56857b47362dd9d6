// Returns the architectures for which this build was compiled, and whether a device can run the
// kernels of this build.
#pragma once

namespace mxlite::cuda {

const char* compiled_architectures();  // returns for example "9.0"
// Returns whether kernels of this build can be loaded on the current device.
bool runs_on_current_device();

}  // namespace mxlite::cuda
