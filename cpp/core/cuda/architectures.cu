#include <cuda_runtime.h>

#include "cpp/core/cuda/architectures.h"

namespace mxlite::cuda {
namespace {

// Compiled for the same architectures as all other kernels, so it shows whether the other kernels
// can be loaded.
__global__ void probe() {}

}  // namespace

const char* compiled_architectures() { return MXLITE_CUDA_ARCHITECTURE_NAMES; }

bool runs_on_current_device() {
  cudaFuncAttributes attributes;
  const bool found = cudaFuncGetAttributes(&attributes, probe) == cudaSuccess;
  cudaGetLastError();
  return found;
}

}  // namespace mxlite::cuda
