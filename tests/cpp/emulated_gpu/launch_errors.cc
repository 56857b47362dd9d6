// Errors of launches on the emulator.
#include "cpp/core/cuda/check.h"

namespace mxlite::cuda {

void throw_cuda_error(cudaError_t, const char* call) { fail(ErrorKind::kDevice, call, " failed"); }

}  // namespace mxlite::cuda
