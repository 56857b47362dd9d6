#include "cpp/ops/cuda/check.h"

namespace mxlite::cuda {

void throw_cublas_error(cublasStatus_t status, const char* call) {
  const ErrorKind kind =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::kOutOfMemory : ErrorKind::kDevice;
  fail(kind, call, " failed: ", cublasGetStatusName(status), ", ", cublasGetStatusString(status));
}

void throw_cudnn_error(cudnnStatus_t status, const char* call) {
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof details);
  const ErrorKind kind =
      status == CUDNN_STATUS_ALLOC_FAILED ? ErrorKind::kOutOfMemory : ErrorKind::kDevice;
  fail(kind, call, " failed: ", cudnnGetErrorString(status), details[0] ? ", " : "", details);
}

}  // namespace mxlite::cuda
