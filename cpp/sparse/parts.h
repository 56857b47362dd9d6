// Converts sparse arrays to their normal form, and provides helpers for operator rules. The tape
// does not record these functions. If the shape of a result depends on values, the function waits
// for these values.
#pragma once
#include <span>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/ndarray/sparse.h"

namespace mxlite::sparse {

// Pauses recording, because operations on the parts of sparse arrays are not recorded.
class Unrecorded : public autograd::ModeScope {
 public:
  Unrecorded() : ModeScope({.recording = false, .training = autograd::mode.training}) {}
};

// Converts the parts of a sparse array to the normal form and returns them.
const SparseParts& normal_parts(const NDArrayRef& array);
// Returns the array in default storage, or the array itself if it is dense.
NDArrayRef dense(const NDArrayRef& array);
// Converts a dense array to a sparse array that stores the nonzero values.
NDArrayRef sparse_of_dense(const NDArrayRef& dense, StorageType stype);

// Returns the distinct indices in ascending order.
NDArrayRef unique_rows(const NDArrayRef& indices);
struct Rows {
  NDArrayRef values, indices;
};
// Sorts rows by index. Adds up rows with equal indices.
Rows merged(const NDArrayRef& values, const NDArrayRef& indices);
NDArrayRef row_sparse(const Rows& rows, const Shape& shape);
// Returns an array that stores `values` at the positions where `like` stores values.
NDArrayRef with_values(const NDArrayRef& like, NDArrayRef values);

// Returns the position of every stored value in the flattened matrix.
NDArrayRef csr_keys(const NDArrayRef& csr);
// Returns a csr array from values and their positions in the flattened matrix. The positions are
// ascending.
NDArrayRef csr_of_keys(const NDArrayRef& values, const NDArrayRef& keys, const Shape& shape);
// Returns the values of an array, of any storage type, at the positions that `pattern` stores.
NDArrayRef looked_up(const NDArrayRef& array, const NDArrayRef& pattern);

// Waits for the values of a vector and returns them, rounded towards 0.
std::vector<int64_t> read_integers(const NDArrayRef& vector);
NDArrayRef make_integers(std::span<const int64_t> values, Device device);
// Returns a view of the elements begin to end - 1 along the first axis.
NDArrayRef first_axis_part(const NDArrayRef& array, int64_t begin, int64_t end);
NDArrayRef concat_rows(std::span<const NDArrayRef> arrays);

}  // namespace mxlite::sparse
