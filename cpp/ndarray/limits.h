// Limits of the sizes of arrays.
#pragma once
#include "cpp/core/shape.h"

namespace mxlite {

// Throws a shape error for negative dimensions and for empty arrays that NumPy refuses too, and an
// out-of-memory error if the number of bytes does not fit into 63 bits.
void check_array_size(const TensorSpec& spec);

}  // namespace mxlite
