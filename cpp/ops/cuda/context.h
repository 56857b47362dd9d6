// State that a CUDA kernel gets from its KernelContext in addition to scratch(): the stream,
// library handles bound to it, and the position of its random numbers.
#pragma once
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "cpp/ops/cuda/check.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

cudaStream_t stream(const KernelContext& ctx);
// Return handles that use the device's stream. Handles are created on first use.
cublasHandle_t cublas(const KernelContext& ctx);
cublasLtHandle_t cublaslt(const KernelContext& ctx);
cudnnHandle_t cudnn(const KernelContext& ctx);

// Memory for one matrix product at a time. Its size is fixed, so that algorithms chosen earlier
// remain possible.
struct Workspace {
  void* data;
  size_t bytes;
};
Workspace gemm_workspace(const KernelContext& ctx);

// Returns counters that are 0 between the kernels of the stream, for is_last_block; null if `count`
// is too large.
unsigned* arrival_counters(const KernelContext& ctx, int64_t count);

int multiprocessors(const KernelContext& ctx);

}  // namespace mxlite::cuda
