// Element-wise reduction of buffers in host memory, on the calling thread.
#pragma once
#include <span>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// output = inputs[0] op inputs[1] op ..., in this order; the output may be one of the inputs.
void reduce_buffers(std::span<const void* const> inputs, void* output, int64_t count, DType dtype,
                    ReduceOp op);
// Reduces like the function above into two outputs, the second of which other processes read.
void reduce_buffers(std::span<const void* const> inputs, void* output, void* second, int64_t count,
                    DType dtype, ReduceOp op);

// Selects how reduce_to_all writes. It reduces into all outputs; output i may be input i.
enum class Stores : uint8_t { kCached, kStreaming };  // kStreaming means non-temporal
void reduce_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                   int64_t count, DType dtype, ReduceOp op, Stores stores);

// data *= factor; 16-bit floats in float32, integers in float64 and then truncated.
void scale_buffer(void* data, int64_t count, DType dtype, double factor);

inline constexpr size_t kStreamBytes = size_t{8} << 20;  // exceeds the size of the caches
// Copies with non-temporal stores. Meant for at least kStreamBytes.
void copy_streaming(void* to, const void* from, size_t bytes);

}  // namespace mxlite
