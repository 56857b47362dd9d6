// Index tensors may have any dtype (MXNet 1.x's default is float32); kernels read them as int64.
#pragma once
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Returns the values of `indices` (contiguous), truncated to integers. Unless they are int64,
// writes them to `buffer`, which has room for indices.size() numbers.
const int64_t* index_values(const TensorRef& indices, int64_t* buffer);
// Like the function above, but uses the call's scratch memory as buffer. Reserves `extra` further
// numbers for the caller and sets *rest to them.
const int64_t* index_values(KernelContext& ctx, const TensorRef& indices, int64_t extra = 0,
                            int64_t** rest = nullptr);
// Stores int64 values in out's dtype.
void store_index_values(const int64_t* values, int64_t count, const TensorRef& out);

}  // namespace mxlite::cpu
