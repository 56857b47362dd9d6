// Rules of operators whose results are sparse only if they are called by a certain alias. 1.x has
// element-wise operators beside broadcasting ones (_maximum, broadcast_maximum), and operators that
// skip values which are not stored (_scatter_plus_scalar, _plus_scalar). Here each pair is one
// operator, whose schema says how the results of an alias are stored (AliasStorage).
#pragma once
#include "cpp/sparse/rule.h"

namespace mxlite::sparse {

// Rule for f(0, 0) = 0: the result stores a value where either operand stores one.
NDArrayRef stored_in_either(const SparseCall& call);
// Rule of operators whose result stores values where the first input stores them.
NDArrayRef stored_in_first(const SparseCall& call);

}  // namespace mxlite::sparse
