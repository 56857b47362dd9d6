// Operators that keep results sparse under one of their names only. 1.x has element-wise operators
// beside the broadcasting ones (_maximum beside broadcast_maximum), and operators that leave out
// what is not stored (_scatter_plus_scalar beside _plus_scalar); here each pair is one operator,
// whose schema says how the results of an alias are stored (AliasStorage).
#pragma once
#include "cpp/sparse/rule.h"

namespace mxlite::sparse {

// Rule of f(0, 0) = 0: the result is stored where one of the operands stores a value.
NDArrayRef stored_in_either(const SparseCall& call);
// Rule of operators that leave out what their first input does not store.
NDArrayRef stored_in_first(const SparseCall& call);

}  // namespace mxlite::sparse
