// Large products of bfloat16 matrices with oneDNN's matmul. matmul would pack a plain right operand
// again for every 256 rows of the result, and a transposed left operand for every 384 columns.
// These functions pack both operands once, before the product.
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// Computes C = op(A) op(B) on contiguous row-major matrices, as in gemm.h. Returns false without
// writing C if the product is not large or this processor lacks the instructions.
bool packed_product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c);

// Returns whether packing the right operand of a product saves more time than the packing takes.
bool is_worth_packing(int64_t m, int64_t n, int64_t k);

}  // namespace mxlite::cpu
