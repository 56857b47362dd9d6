// Records kernels and copies with their names and times on the GPU, using CUDA's profiling library
// (CUPTI).
#pragma once
#include <string>

#include "cpp/core/device_timer.h"

namespace mxlite::cuda {

// Returns a tracer, or null if CUPTI's headers were missing in this build. When recording first
// starts, the tracer loads `library` or, if it is empty, the default library. The tracer exists
// until the process ends, because CUPTI calls it from its own thread.
KernelTracer* make_cupti_tracer(const std::string& library);

}  // namespace mxlite::cuda
