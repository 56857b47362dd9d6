#include "cpp/core/cuda/check.h"

#include <cstdio>

#include "cpp/core/cuda/architectures.h"

namespace mxlite::cuda {

void throw_cuda_error(cudaError_t status, const char* call) {
  cudaGetLastError();  // clears it: the next launch would report it again
  if (status == cudaErrorMemoryAllocation) fail(ErrorKind::kOutOfMemory, "out of memory in ", call);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    fail(ErrorKind::kDevice, call,
         ": no kernel for this GPU's architecture; this build has kernels for ",
         compiled_architectures());
  fail(ErrorKind::kDevice, call, " failed: ", cudaGetErrorName(status), ", ",
       cudaGetErrorString(status));
}

void check_noexcept(cudaError_t status, const char* call) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  std::fprintf(stderr, "mxlite: %s failed: %s\n", call, cudaGetErrorString(status));
}

DeviceGuard::DeviceGuard(int device) {
  int current = 0;
  MX_CUDA(cudaGetDevice(&current));
  if (current == device) return;
  MX_CUDA(cudaSetDevice(device));
  before_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) MX_CUDA_NOEXCEPT(cudaSetDevice(before_));
}

}  // namespace mxlite::cuda
