// Records kernels and copies with their names and times on the GPU, using CUDA's profiling library
// (CUPTI).
#pragma once
#include <string>

#include "cpp/core/device_timer.h"

namespace mxlite::cuda {

// Returns a tracer, or null if CUPTI's headers were missing in this build. The library is loaded
// when recording first starts: `library` or, if it is empty, the default one. The tracer lives
// until the process ends, because CUPTI calls it from its own thread.
KernelTracer* make_cupti_tracer(const std::string& library);

}  // namespace mxlite::cuda
