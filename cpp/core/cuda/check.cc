#include "cpp/core/cuda/check.h"

#include <atomic>
#include <cstdio>

#include "cpp/core/cuda/architectures.h"

namespace mxlite::cuda {

namespace {

// Returns whether the driver can no longer reach the device.
bool is_lost(cudaError_t status) {
  return status == cudaErrorDevicesUnavailable || status == cudaErrorContextIsDestroyed ||
         status == cudaErrorUnknown;
}

}  // namespace

// Returns whether the device is unusable for this process after the error, so that every later call
// returns the same code.
bool breaks_the_device(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
      return true;
    default:
      return is_lost(status);
  }
}

void throw_cuda_error(cudaError_t status, const char* call) {
  cudaGetLastError();  // clears the error, because the next launch would report it again
  if (status == cudaErrorMemoryAllocation) fail(ErrorKind::kOutOfMemory, "out of memory in ", call);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    fail(ErrorKind::kDevice, call,
         ": no kernel for this GPU's architecture; this build has kernels for ",
         compiled_architectures());
  fail(ErrorKind::kDevice, call, " failed: ", cudaGetErrorName(status), ", ",
       cudaGetErrorString(status),
       is_lost(status)             ? "; the GPU does not answer, and the process cannot use it any "
                                     "more (the command nvidia-smi shows its state)"
       : breaks_the_device(status) ? "; earlier work of the GPU may be the cause, and the process "
                                     "cannot use it any more"
                                   : "");
}

bool is_reached(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status != cudaErrorNotReady) {
    check(status, "cudaEventQuery");
    return true;
  }
  cudaGetLastError();  // clears the error, because the next launch of this thread would report it
  return false;
}

void check_noexcept(cudaError_t status, const char* call) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  // On a broken device every free fails, so only the first failure is printed.
  static std::atomic<bool> reported{false};
  if (breaks_the_device(status) && reported.exchange(true)) return;
  std::fprintf(stderr, "mxlite: %s failed: %s\n", call, cudaGetErrorString(status));
}

DeviceGuard::DeviceGuard(int device, std::nothrow_t) noexcept {
  try {
    push_context(device);
  } catch (...) {
    pushed_ = false;
  }
}

}  // namespace mxlite::cuda
