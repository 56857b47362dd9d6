// Limits that cuBLASLt's heuristic is given. They need no GPU, so that a test reads them back.
#pragma once
#include <cublasLt.h>

#include "cpp/ops/cuda/matrix/gemm_alignment.h"

namespace mxlite::cuda {

// The caller destroys the preference. dtype: that of the operands.
cublasLtMatmulPreference_t make_preference(DType dtype, const GemmAlignment& align,
                                           size_t workspace_bytes);

}  // namespace mxlite::cuda
