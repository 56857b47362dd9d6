// State that a CUDA kernel gets from its KernelContext besides scratch(): the stream, library
// handles bound to it, and the position of its random numbers.
#pragma once
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "cpp/ops/cuda/check.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

cudaStream_t stream(const KernelContext& ctx);
// Handles belong to the device's stream and are set to it; made on first use.
cublasHandle_t cublas(const KernelContext& ctx);
cublasLtHandle_t cublaslt(const KernelContext& ctx);
cudnnHandle_t cudnn(const KernelContext& ctx);

// Serves one matrix product at a time; its size is fixed, so a heuristic's choice stays possible.
struct Workspace {
  void* data;
  size_t bytes;
};
Workspace gemm_workspace(const KernelContext& ctx);

int multiprocessors(const KernelContext& ctx);

}  // namespace mxlite::cuda
