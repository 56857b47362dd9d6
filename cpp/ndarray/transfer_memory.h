// Host arrays that serve as sources of copies to a GPU.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Returns an uninitialized array on cpu(0). If the process uses a GPU, the array's memory is
// pinned, so that copies to the GPU are asynchronous and need no staging buffer.
NDArrayRef empty_for_transfer(const TensorSpec& spec);

}  // namespace mxlite
