// The matrix product of the CPU backend, row-major: C = alpha * op(A) * op(B) + beta * C, where
// op(A) is m x k and op(B) is k x n. float32 uses matrix_vector for one row or column,
// narrow_product for a small B, else oneDNN's sgemm; 16-bit floats use oneDNN's matmul with float
// accumulation; float64 and integers (modulo 2^bits) use a blocked loop.
#pragma once
#include <cstdint>

#include "cpp/core/dtype.h"

namespace mxlite::cpu {

// Products of at most this many multiply-adds have no parallel region and no library call, so they
// may run inline on the caller's thread.
constexpr int64_t kSmallGemm = 16384;
inline bool is_small_gemm(int64_t m, int64_t n, int64_t k) { return m * n * k <= kSmallGemm; }

// Leading dimensions are the strides, in elements, of rows as stored (A is stored as k x m if
// trans_a). C is not read if beta is 0. Supports all numeric dtypes except bool. Thread-safe.
void gemm(DType dtype, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
          int64_t lda, const void* b, int64_t ldb, void* c, int64_t ldc, double alpha = 1,
          double beta = 0);

// Computes `batch` products. Strides are elements between consecutive matrices; 0 for A or B uses
// the same matrix for all products.
void gemm_batch(DType dtype, bool trans_a, bool trans_b, int64_t batch, int64_t m, int64_t n,
                int64_t k, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                int64_t stride_b, void* c, int64_t ldc, int64_t stride_c, double alpha = 1,
                double beta = 0);

}  // namespace mxlite::cpu
