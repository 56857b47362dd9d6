// Names of kernels, for errors and for the log of launches.
#pragma once

namespace mxlite::cuda {

// Returns the source name of the kernel that has this host function. The text is never freed.
const char* kernel_name(const void* function);

}  // namespace mxlite::cuda
