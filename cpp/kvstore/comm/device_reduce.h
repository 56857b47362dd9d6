// Sums arrays of several GPUs of this process.
#pragma once
#include <span>
#include <vector>

#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Replaces every array by the sum of all arrays. The arrays must be contiguous, have the same shape
// and dtype, and be on different GPUs. The sum runs in the order of the engine on separate streams.
// Kernels that do not use the arrays can thus run at the same time. The group of GPUs is created on
// first use and reused.
void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op);

// Arrays on one GPU. Input and output may be the same array.
struct DeviceOperand {
  NDArrayRef input, output;
};
// Sets all outputs to the sum of all inputs in one NCCL call. The operands must be contiguous, have
// the same size and dtype, and be on different GPUs. `access` has the variables that the task uses.
void all_reduce_on_devices(std::vector<DeviceOperand> operands, ReduceOp op,
                           const engine::Access& access);

}  // namespace mxlite
