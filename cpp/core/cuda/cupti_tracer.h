// Kernels and copies by name in the time of the GPU, from CUDA's profiling library (CUPTI).
#pragma once
#include <string>

#include "cpp/core/device_timer.h"

namespace mxlite::cuda {

// Returns null if this build has no headers of CUPTI. The library itself is loaded when
// recording first starts: `library`, or if that is empty the one that the loader finds. The tracer
// lives until the process ends, because CUPTI calls it from a thread of its own.
KernelTracer* make_cupti_tracer(const std::string& library);

}  // namespace mxlite::cuda
