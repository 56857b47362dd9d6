// Limits for cuBLASLt's heuristic. Needs no GPU, so that a test can check the limits.
#pragma once
#include <cublasLt.h>

#include "cpp/ops/cuda/matrix/gemm_alignment.h"

namespace mxlite::cuda {

// The caller destroys the preference. `dtype` is that of the operands.
cublasLtMatmulPreference_t make_preference(DType dtype, const GemmAlignment& align,
                                           size_t workspace_bytes);

}  // namespace mxlite::cuda
