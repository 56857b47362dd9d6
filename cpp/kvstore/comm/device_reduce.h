// Sums arrays of several GPUs of this process.
#pragma once
#include <span>
#include <vector>

#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Replaces every array by the sum of all arrays. The arrays must be contiguous, of one shape and
// dtype, and on different GPUs. Runs in the order of the engine on streams of its own, so that
// kernels which do not use the arrays run meanwhile. The group of GPUs is created on first use and
// reused.
void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op);

// Arrays of one GPU. Input and output may be the same array.
struct DeviceOperand {
  NDArrayRef input, output;
};
// Sets all outputs to the sum of all inputs, in one NCCL call. The operands must be contiguous, of
// one size and dtype, and on different GPUs; `access` has the variables that the task uses.
void all_reduce_on_devices(std::vector<DeviceOperand> operands, ReduceOp op,
                           const engine::Access& access);

}  // namespace mxlite
