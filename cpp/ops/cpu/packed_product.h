// Large products of bfloat16 matrices in oneDNN's matmul. It would bring a plain right operand into
// the order of the instructions again for every 256 rows of the result, and a transposed left one
// for every 384 columns: here both happen once, before the product.
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// C = op(A) op(B), row-major without gaps, as of gemm.h. Returns false if the product is not large,
// or this processor lacks the instructions; then nothing was written.
bool packed_product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c);

// Returns whether packing the right operand of such a product takes less than it saves.
bool is_worth_packing(int64_t m, int64_t n, int64_t k);

}  // namespace mxlite::cpu
