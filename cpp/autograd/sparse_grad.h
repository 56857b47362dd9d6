// Sparse gradients on the tape: what is added up, stored and handed to rules that take dense ones.
#pragma once
#include "cpp/autograd/tape.h"

namespace mxlite::autograd {

// The array itself unless it is sparse.
NDArrayRef densified(const NDArrayRef& array);
// Two row-sparse gradients stay row-sparse (rows listed one after the other).
NDArrayRef add_gradients(const NDArrayRef& a, const NDArrayRef& b);
// An array of zeros in a storage type other than the default.
NDArrayRef empty_sparse(StorageType stype, const TensorSpec& spec, Device device);
// Writes or adds a gradient, dense or not, into a variable whose gradient is sparse. own: nobody
// else has the array `value`.
void store_sparse(ArrayInfo& variable, const NDArrayRef& value, bool own);

}  // namespace mxlite::autograd
