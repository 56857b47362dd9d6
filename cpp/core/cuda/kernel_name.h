// Names of kernels, for errors and for the log of launches.
#pragma once

namespace mxlite::cuda {

// Returns the name that the source gives the kernel whose host function this is. The pointer stays
// valid for the life of the process.
const char* kernel_name(const void* function);

}  // namespace mxlite::cuda
