// The one matrix product of the CUDA backend, row-major: C = alpha * op(A) * op(B) + beta * C with
// op(A) of m x k, op(B) of k x n. Floating types run in cuBLASLt (halves with float sums), integers
// (modulo 2^bits) in a loop of ours, but for int8 with sums of int32.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cuda {

struct Gemm {
  DType dtype = DType::kFloat32;
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  // Leading dimensions count elements between rows as stored: A is k x m when trans_a.
  int64_t lda = 0, ldb = 0, ldc = 0;
  // Strides count elements between consecutive matrices (0: the same one, only for A and B).
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1, beta = 0;  // beta 0 never reads C
  // Done to the result before it is stored; bias has one number per column.
  bool bias = false, relu = false;
};

struct GemmOperands {
  const void *a, *b;
  void* c;
  const void* bias = nullptr;
  const void* addend = nullptr;  // beta times this matrix, laid out like C, replaces C
};

void gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

// The same for A and B of int8 and C of int32, on tensor cores: dtype is int8, alpha 1, beta 0,
// without bias and relu, and only B is transposed. k, n and leading dimensions must be multiples of
// 4, addresses of 4 bytes. Returns false, and nothing runs, if cuBLASLt has no algorithm.
bool gemm_to_int32(KernelContext& ctx, const Gemm& g, const GemmOperands& operands);

}  // namespace mxlite::cuda
