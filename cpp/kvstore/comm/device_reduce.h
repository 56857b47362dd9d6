// Sums arrays of several GPUs of this process.
#pragma once
#include <span>
#include <vector>

#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Every array becomes the sum of all. The arrays are contiguous, of one shape and dtype, and on
// different GPUs; runs in the background, after the tasks that write them. Groups are made on first
// use and kept.
void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op);

// The arrays of one GPU. The input may be the output.
struct DeviceOperand {
  NDArrayRef input, output;
};
// The outputs become the sum of all inputs, in one call of NCCL. The operands are contiguous, of
// one size and dtype, and on different GPUs; `access` has what the task must wait for.
void all_reduce_on_devices(std::vector<DeviceOperand> operands, ReduceOp op,
                           const engine::Access& access);

}  // namespace mxlite
