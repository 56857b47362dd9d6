// Entry points that libmxlite.so calls after loading libmxlite_cuda.so (cpp/core/accelerator.cc).
#include <cuda_runtime_api.h>

#include <exception>

#include "cpp/core/cuda/accelerator.h"
#include "cpp/graph/cuda/recorder.h"
#include "cpp/kvstore/comm/nccl/nccl_group.h"
#include "cpp/ndarray/cuda/copy.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/registration.h"

extern "C" __attribute__((visibility("default"))) mxlite::Accelerator* mxlite_plugin_load(
    std::string* why_not) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    *why_not = mxlite::str("the CUDA driver finds no GPU: ", cudaGetErrorString(status));
    return nullptr;
  }
  try {
    // Leaked: arrays may outlive static destructors.
    auto* accelerator = new mxlite::cuda::CudaAccelerator(count);
    mxlite::set_device_copy(&mxlite::cuda::copy_strided);
    mxlite::set_device_group_backend(&mxlite::nccl::make_nccl_group);
    mxlite::graph::set_graph_recorder(new mxlite::cuda::CudaGraphRecorder);
    mxlite::Registration::run_all(mxlite::ops());  // the kernels of this library
    return accelerator;
  } catch (const std::exception& error) {
    *why_not = mxlite::str("the CUDA plug-in failed: ", error.what());
    return nullptr;
  }
}
