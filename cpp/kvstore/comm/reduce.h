// Element-wise reduction of buffers in host memory, on the calling thread.
#pragma once
#include <span>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// Computes output = inputs[0] op inputs[1] op ... in this order. The output may be one of the
// inputs.
void reduce_buffers(std::span<const void* const> inputs, void* output, int64_t count, DType dtype,
                    ReduceOp op);
// Reduces like the function above, but into two outputs. Other processes read the second output.
void reduce_buffers(std::span<const void* const> inputs, void* output, void* second, int64_t count,
                    DType dtype, ReduceOp op);

// Selects how reduce_to_all writes. reduce_to_all reduces into all outputs, and output i may be
// input i.
enum class Stores : uint8_t { kCached, kStreaming };  // kStreaming means non-temporal
void reduce_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                   int64_t count, DType dtype, ReduceOp op, Stores stores);

// Computes data *= factor. Multiplies 16-bit floats in float32. Multiplies integers in float64 and
// truncates the result.
void scale_buffer(void* data, int64_t count, DType dtype, double factor);

inline constexpr size_t kStreamBytes = size_t{8} << 20;  // exceeds the size of the caches
// Copies with non-temporal stores. Suitable for at least kStreamBytes.
void copy_streaming(void* to, const void* from, size_t bytes);

}  // namespace mxlite
