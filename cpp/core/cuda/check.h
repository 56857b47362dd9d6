// MX_CUDA(call): a failed call of the CUDA runtime becomes a mxlite::Error with the call's text.
// The engine adds "while running <op> (<shapes>)".
#pragma once
#include <cuda_runtime_api.h>

#include "cpp/base/error.h"

namespace mxlite::cuda {

[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call);

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, call);
}

// For destructors: prints the failure unless the process is ending.
void check_noexcept(cudaError_t status, const char* call) noexcept;

// Makes a device this thread's current one while it lives.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;  // -1: nothing to restore
};

}  // namespace mxlite::cuda

#define MX_CUDA(call) ::mxlite::cuda::check((call), #call)
#define MX_CUDA_NOEXCEPT(call) ::mxlite::cuda::check_noexcept((call), #call)
// Must follow every <<<...>>>: launches report through the thread's last error.
#define MX_CUDA_LAUNCHED(kernel) ::mxlite::cuda::check(cudaGetLastError(), "launch of " kernel)
