// MX_CUBLAS(call), MX_CUDNN(call), MX_CUDNN_GRAPH(call) throw an mxlite::Error on failure.
#pragma once
#include <cublas_v2.h>
#include <cudnn.h>

#include "cpp/core/cuda/check.h"

namespace mxlite::cuda {

[[noreturn]] void throw_cublas_error(cublasStatus_t status, const char* call);
[[noreturn]] void throw_cudnn_error(cudnnStatus_t status, const char* call);

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw_cublas_error(status, call);
}
inline void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    throw_cudnn_error(status, call);
}

}  // namespace mxlite::cuda

#define MX_CUBLAS(call) ::mxlite::cuda::check((call), #call)
#define MX_CUDNN(call) ::mxlite::cuda::check((call), #call)
// Checks a cudnn_frontend::error_t.
#define MX_CUDNN_GRAPH(call)                                                            \
  do {                                                                                  \
    if (const auto cudnn_graph_error = (call); cudnn_graph_error.is_bad()) [[unlikely]] \
      ::mxlite::fail(::mxlite::ErrorKind::kDevice,                                      \
                     #call " failed: ", cudnn_graph_error.get_message());               \
  } while (0)
