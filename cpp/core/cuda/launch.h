// Launches kernels. The log of launches and errors of failed launches contain the kernel's name.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/kernel_name.h"
#include "cpp/core/launch_log.h"

namespace mxlite::cuda {

template <class... Params, class... Args>
void launch_kernel(const cudaLaunchConfig_t& config, void (*kernel)(Params...), Args&&... args) {
  const char* const name = kernel_name(reinterpret_cast<const void*>(kernel));
  note_launch(name);
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
  if (status != cudaSuccess) [[unlikely]]
    throw_cuda_error(status, str("launch of ", name).c_str());
}

}  // namespace mxlite::cuda
