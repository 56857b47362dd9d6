#include "cpp/core/cuda/check.h"

#include <atomic>
#include <cstdio>

#include "cpp/core/cuda/architectures.h"

namespace mxlite::cuda {

// After these the process can do nothing more on the device: every call returns the same code.
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
      return false;
  }
}

void throw_cuda_error(cudaError_t status, const char* call) {
  cudaGetLastError();  // clears it: the next launch would report it again
  if (status == cudaErrorMemoryAllocation) fail(ErrorKind::kOutOfMemory, "out of memory in ", call);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    fail(ErrorKind::kDevice, call,
         ": no kernel for this GPU's architecture; this build has kernels for ",
         compiled_architectures());
  fail(ErrorKind::kDevice, call, " failed: ", cudaGetErrorName(status), ", ",
       cudaGetErrorString(status),
       breaks_the_device(status) ? "; earlier work of the GPU may be the cause, and the process "
                                   "cannot use it any more"
                                 : "");
}

bool is_reached(cudaEvent_t event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status != cudaErrorNotReady) {
    check(status, "cudaEventQuery");
    return true;
  }
  cudaGetLastError();  // else the next launch of this thread would report it
  return false;
}

void check_noexcept(cudaError_t status, const char* call) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  // Everything that is freed on a broken device fails: the first line says all.
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
