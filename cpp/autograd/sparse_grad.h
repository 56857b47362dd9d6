// Adds and stores sparse gradients, and converts them to dense arrays for gradient rules that need
// these.
#pragma once
#include "cpp/autograd/tape.h"

namespace mxlite::autograd {

// Returns the array in dense form, or the array itself if it is dense.
NDArrayRef densified(const NDArrayRef& array);
// Adds two gradients. The sum of two row-sparse gradients is row-sparse; its rows are concatenated.
NDArrayRef add_gradients(const NDArrayRef& a, const NDArrayRef& b);
// Returns an array of zeros in a storage type other than the default.
NDArrayRef empty_sparse(StorageType stype, const TensorSpec& spec, Device device);
// Writes or adds a gradient of any storage type to a variable whose gradient is sparse. `own` means
// that no other handle refers to the array `value`.
void store_sparse(ArrayInfo& variable, const NDArrayRef& value, bool own);

}  // namespace mxlite::autograd
