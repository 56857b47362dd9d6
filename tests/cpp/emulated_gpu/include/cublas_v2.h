#pragma once
using cublasHandle_t = struct EmulatedCublas*;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
