// Sums arrays of several GPUs of this process, in place.
#pragma once
#include <span>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Every array becomes the sum of all. The arrays are contiguous, of one shape and dtype, and on
// different GPUs; runs in the background, after the tasks that write them. Groups are made on first
// use and kept.
void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op);

}  // namespace mxlite
