// Sums arrays of several GPUs of this process, in place.
#pragma once
#include <span>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Afterwards every array holds the result of all. Contiguous arrays of one shape and dtype, on
// different GPUs; runs in the background, behind what writes them. Groups are made on first use and
// kept.
void all_reduce_on_devices(std::span<const NDArrayRef> arrays, ReduceOp op);

}  // namespace mxlite
