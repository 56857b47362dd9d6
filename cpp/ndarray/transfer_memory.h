// Arrays of the host that are filled to be copied to a GPU.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// Returns an array on cpu(0), not initialized. If the process uses a GPU, its memory is
// page-locked: copies from there run beside the host and need no staging.
NDArrayRef empty_for_transfer(const TensorSpec& spec);

}  // namespace mxlite
