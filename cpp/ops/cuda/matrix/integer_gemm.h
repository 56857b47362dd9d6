// Matrix products of integers, modulo 2^bits.
#pragma once
#include "cpp/ops/cuda/matrix/gemm.h"

namespace mxlite::cuda {

void integer_gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

}  // namespace mxlite::cuda
