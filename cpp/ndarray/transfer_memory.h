// Host arrays from which data are copied to a GPU.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Returns an uninitialized array on cpu(0). If the process uses a GPU, its memory is pinned: copies
// from it to the GPU are asynchronous and need no staging buffer.
NDArrayRef empty_for_transfer(const TensorSpec& spec);

}  // namespace mxlite
