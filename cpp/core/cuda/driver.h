// Finds functions of the driver, libcuda.so.1. The driver is not linked; the CUDA runtime looks the
// functions up.
#pragma once
#include <cuda.h>

#include "cpp/core/cuda/check.h"

namespace mxlite::cuda {

// Sets `function` to the driver's function of that name. Throws a device error if the function does
// not exist.
template <class F>
void find_driver_function(const char* name, F*& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  MX_CUDA(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found));
  MX_CHECK_KIND(found == cudaDriverEntryPointSuccess, ErrorKind::kDevice,
                "the NVIDIA driver has no ", name, "; a driver for CUDA 13 is needed");
  function = reinterpret_cast<F*>(address);
}

}  // namespace mxlite::cuda
