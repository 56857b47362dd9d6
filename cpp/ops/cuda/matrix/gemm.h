// The matrix product of the CUDA backend, row-major: C = alpha * op(A) * op(B) + beta * C, where
// op(A) is m x k and op(B) is k x n. Floating types use cuBLASLt (float sums for 16-bit floats).
// Integers use a loop (modulo 2^bits), except int8 with int32 sums.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

struct Gemm {
  DType dtype = DType::kFloat32;
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  // Leading dimensions are the strides, in elements, of rows as stored: A is k x m if trans_a.
  int64_t lda = 0, ldb = 0, ldc = 0;
  // Strides are in elements between consecutive matrices; 0 (only for A and B) uses the same matrix
  // for all products.
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;  // C is not read if beta is 0
  // Bias (one number per column) and relu are applied to the result before it is stored.
  bool bias = false, relu = false;
};

struct GemmOperands {
  const void *a, *b;
  void* c;
  const void* bias = nullptr;
  const void* addend = nullptr;  // if set, beta times this matrix, which has the layout of C, is
                                 // added instead of beta * C
};

void gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

// Computes an int32 product C of int8 A and B on tensor cores. Requires dtype int8, alpha 1,
// beta 0, no bias, no relu, and only B transposed. k, n and leading dimensions must be multiples of
// 4, and addresses multiples of 4 bytes. Returns false without running anything if cuBLASLt has no
// algorithm.
bool gemm_to_int32(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

}  // namespace mxlite::cuda
