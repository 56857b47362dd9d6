// Puts calls on sparse arrays on the tape as a whole; their parts have no history.
#pragma once
#include <functional>

#include "cpp/autograd/tape.h"

namespace mxlite::sparse {

// Returns whether a call on the array would be recorded.
bool is_recorded(const NDArrayRef& array);

// Gradients of the outputs (null where none arrived) -> gradients of the inputs.
using Backward = std::function<std::vector<NDArrayRef>(std::span<const NDArrayRef>)>;
// Records `result` of a function of `data`. takes_sparse: gradients are not made dense first.
void record(const char* name, const NDArrayRef& data, const NDArrayRef& result, bool takes_sparse,
            Backward backward);

// Returns the array in a storage type, recorded; itself if it has the type. Throws a value error
// between row_sparse and csr, which 1.x does not convert either.
NDArrayRef cast_storage(const NDArrayRef& data, StorageType stype);
// Returns a dense array whose gradient goes to the given array, and which may share its memory.
NDArrayRef dense_operand(const NDArrayRef& array);

}  // namespace mxlite::sparse
