// Sparse arrays in their normal form, and what rules of operators build results from. Nothing here
// is recorded. Functions wait for values where the shape of a result depends on them.
#pragma once
#include <span>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/ndarray/sparse.h"

namespace mxlite::sparse {

// Switches recording off: parts are handled outside of the tape.
class Unrecorded : public autograd::ModeScope {
 public:
  Unrecorded() : ModeScope({.recording = false, .training = autograd::mode.training}) {}
};

// Brings the parts of a sparse array into the normal form and returns them.
const SparseParts& normal_parts(const NDArrayRef& array);
// Returns the array in default storage; itself if it has that already.
NDArrayRef dense(const NDArrayRef& array);
// Returns an array of default storage as a sparse one, which stores what is not 0.
NDArrayRef sparse_of_dense(const NDArrayRef& dense, StorageType stype);

// Returns indices in ascending order, each once.
NDArrayRef unique_rows(const NDArrayRef& indices);
struct Rows {
  NDArrayRef values, indices;
};
// Brings rows into ascending order and adds up those of one index.
Rows merged(const NDArrayRef& values, const NDArrayRef& indices);
NDArrayRef row_sparse(const Rows& rows, const Shape& shape);
// Returns an array that stores other values where `like` stores values.
NDArrayRef with_values(const NDArrayRef& like, NDArrayRef values);

// Returns the position of every stored value in the flattened matrix.
NDArrayRef csr_keys(const NDArrayRef& csr);
// Returns the csr array with values at ascending positions of the flattened matrix.
NDArrayRef csr_of_keys(const NDArrayRef& values, const NDArrayRef& keys, const Shape& shape);
// Returns the values that an array of any storage has where `pattern` stores values.
NDArrayRef looked_up(const NDArrayRef& array, const NDArrayRef& pattern);

// Returns the values of a vector, rounded towards 0; waits for them.
std::vector<int64_t> read_integers(const NDArrayRef& vector);
NDArrayRef make_integers(std::span<const int64_t> values, Device device);
// Returns elements begin to end - 1 along the first axis, on the same memory.
NDArrayRef first_axis_part(const NDArrayRef& array, int64_t begin, int64_t end);
NDArrayRef concat_rows(std::span<const NDArrayRef> arrays);

}  // namespace mxlite::sparse
