// The one matrix product of the CPU backend, row-major: C = alpha * op(A) * op(B) + beta * C with
// op(A) of m x k, op(B) of k x n. float32 runs in oneDNN's sgemm (one row
// or column: matrix_vector), the halves in its matmul with
// float accumulation, float64 and integers (modulo 2^bits) in a blocked native loop.
#pragma once
#include <cstdint>

#include "cpp/core/dtype.h"

namespace mxlite::cpu {

// Below this many multiply-adds the native loop is used: no parallel region, no library call, so
// such a product may run inline in the caller's thread.
constexpr int64_t kSmallGemm = 16384;
inline bool is_small_gemm(int64_t m, int64_t n, int64_t k) { return m * n * k <= kSmallGemm; }

// Leading dimensions count elements between rows as stored: A is k x m when trans_a. beta 0 never
// reads C. Any numeric dtype but bool; safe in several threads at once.
void gemm(DType dtype, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
          int64_t lda, const void* b, int64_t ldb, void* c, int64_t ldc, double alpha = 1,
          double beta = 0);

// `batch` products; strides count elements between consecutive matrices (0: the same one, only for
// A and B).
void gemm_batch(DType dtype, bool trans_a, bool trans_b, int64_t batch, int64_t m, int64_t n,
                int64_t k, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                int64_t stride_b, void* c, int64_t ldc, int64_t stride_c, double alpha = 1,
                double beta = 0);

}  // namespace mxlite::cpu
