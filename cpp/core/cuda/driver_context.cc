#include "cpp/core/cuda/driver_context.h"

#include <mutex>
#include <vector>

#include "cpp/core/cuda/driver.h"

namespace mxlite::cuda {
namespace {

struct Driver {
  Driver() {
    find_driver_function("cuDeviceGet", device_get);
    find_driver_function("cuDevicePrimaryCtxRetain", retain);
    find_driver_function("cuCtxPushCurrent", push);
    find_driver_function("cuCtxPopCurrent", pop);
  }

  CUresult (*device_get)(CUdevice*, int) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  CUresult (*pop)(CUcontext*) = nullptr;
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult status, const char* call, int device) {
  if (status == CUDA_SUCCESS) return;
  const ErrorKind kind =
      status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kDevice;
  fail(kind, call, " failed on gpu(", device, "): CUDA driver error ", static_cast<int>(status));
}

// Returns the primary context, which is retained until the process ends.
CUcontext primary_context(int device) {
  static std::mutex mutex;
  static auto* const contexts = new std::vector<CUcontext>;
  const std::lock_guard lock(mutex);
  const auto i = static_cast<size_t>(device);
  if (i >= contexts->size()) contexts->resize(i + 1);
  CUcontext& context = (*contexts)[i];
  if (!context) {
    CUdevice handle = 0;
    check(driver().device_get(&handle, device), "cuDeviceGet", device);
    check(driver().retain(&context, handle), "cuDevicePrimaryCtxRetain", device);
  }
  return context;
}

}  // namespace

void push_context(int device) {
  check(driver().push(primary_context(device)), "cuCtxPushCurrent", device);
}

void pop_context() noexcept {
  CUcontext popped = nullptr;
  driver().pop(&popped);  // fails only at the end of the process, when the driver is unloaded
}

}  // namespace mxlite::cuda
