// float32 products with a small right operand, which stays in the cache: C = A * op(B) for A of m
// rows. Call only if the processor has AVX-512 (has_avx512).
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// Returns whether narrow_product is faster than a library for these sizes.
bool is_narrow_product(int64_t n, int64_t k);

// Leading dimensions are elements between rows as stored; B is stored as n x k if trans_b. Runs on
// the calling thread unless the product is large.
void narrow_product(bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                    const float* b, int64_t ldb, float* c, int64_t ldc);

}  // namespace mxlite::cpu
