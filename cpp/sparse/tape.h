// Records each call on sparse arrays as one node. Operations on their parts are not recorded.
#pragma once
#include <functional>

#include "cpp/autograd/tape.h"

namespace mxlite::sparse {

// Returns whether a call on the array would be recorded.
bool is_recorded(const NDArrayRef& array);

// Computes gradients of the inputs from gradients of the outputs. A null gradient means that no
// gradient arrived or is needed.
using Backward = std::function<std::vector<NDArrayRef>(std::span<const NDArrayRef>)>;
// Records `result` as a function of `data`. `takes_sparse` means that `backward` accepts sparse
// gradients.
void record(const char* name, const NDArrayRef& data, const NDArrayRef& result, bool takes_sparse,
            Backward backward);

// Converts the array to a storage type and records the conversion. Returns `data` itself if it
// already has this type. Throws a value error for conversions between row_sparse and csr, as in
// 1.x.
NDArrayRef cast_storage(const NDArrayRef& data, StorageType stype);
// Returns a dense array that may share memory with `array` and passes its gradient to `array`.
NDArrayRef dense_operand(const NDArrayRef& array);

}  // namespace mxlite::sparse
