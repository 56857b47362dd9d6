// Names of kernels, for errors and for the log of launches.
#pragma once

namespace mxlite::cuda {

// Returns the source name of the kernel with this host function. The pointer is never freed.
const char* kernel_name(const void* function);

}  // namespace mxlite::cuda
