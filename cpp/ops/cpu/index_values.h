// Index tensors come in any dtype (float32 by default in 1.x); kernels read them as int64.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Writes the values of `indices` (contiguous) to `buffer` unless they are int64 already; the result
// holds indices.size() numbers. Fractions are cut off.
const int64_t* index_values(const TensorRef& indices, int64_t* buffer);
// The same in the call's scratch memory, followed by `extra` more numbers for the caller; *rest
// to those.
const int64_t* index_values(KernelContext& ctx, const TensorRef& indices, int64_t extra = 0,
                            int64_t** rest = nullptr);
// Stores int64 values as out's dtype.
void store_index_values(const int64_t* values, int64_t count, const TensorRef& out);

}  // namespace mxlite::cpu
