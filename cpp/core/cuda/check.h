// MX_CUDA(call) throws a mxlite::Error with the text of `call` if this call of the CUDA runtime
// fails. The engine adds "while running <op> (<shapes>)".
#pragma once
#include <cuda_runtime_api.h>

#include <new>

#include "cpp/base/error.h"
#include "cpp/core/cuda/driver_context.h"
#include "cpp/core/launch_log.h"

namespace mxlite::cuda {

bool breaks_the_device(cudaError_t status);
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call);

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, call);
}

// Returns without waiting whether all work before the event has ended.
bool is_reached(cudaEvent_t event);

// Prints the failure unless the process is ending. Serves destructors, which must not throw.
void check_noexcept(cudaError_t status, const char* call) noexcept;

// Makes a device the current one of this thread during the object's lifetime. Initializes no other
// device.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) { push_context(device); }
  // Does not throw, so destructors can use it. On failure, the current device does not change.
  DeviceGuard(int device, std::nothrow_t) noexcept;
  ~DeviceGuard() {
    if (pushed_) pop_context();
  }
  DeviceGuard& operator=(DeviceGuard&&) = delete;  // neither copied nor moved

 private:
  bool pushed_ = true;
};

}  // namespace mxlite::cuda

#define MX_CUDA(call) ::mxlite::cuda::check((call), #call)
#define MX_CUDA_NOEXCEPT(call) ::mxlite::cuda::check_noexcept((call), #call)
// Must follow every <<<...>>>, because a launch reports its error only through the thread's last
// error.
#define MX_CUDA_LAUNCHED(kernel) \
  (::mxlite::note_launch(kernel), ::mxlite::cuda::check(cudaGetLastError(), "launch of " kernel))
