// Index tensors may have any dtype (float32 is MXNet 1.x's default); kernels read them as int64.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Returns the values of `indices` (contiguous), truncated to integers. Writes them to `buffer`,
// which has room for indices.size() numbers, unless they are int64 already.
const int64_t* index_values(const TensorRef& indices, int64_t* buffer);
// Same with the call's scratch memory as buffer. Also reserves `extra` numbers there for the caller
// and sets *rest to them.
const int64_t* index_values(KernelContext& ctx, const TensorRef& indices, int64_t extra = 0,
                            int64_t** rest = nullptr);
// Stores int64 values as out's dtype.
void store_index_values(const int64_t* values, int64_t count, const TensorRef& out);

}  // namespace mxlite::cpu
