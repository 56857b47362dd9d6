// Finds properties of values before a graph runs. A function may always return that nothing is
// known; the calling pass then leaves the graph unchanged.
#pragma once
#include <limits>
#include <optional>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

// Bounds of the elements of a value. Unknown bounds are infinite.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_constant() const { return low == high; }
};
Bounds bounds_of(const Graph& graph, ValueId v);

// Returns whether every element is known to be 0 or 1.
bool is_binary(const Graph& graph, ValueId v);

// Divides the flat elements of `v` into `blocks` blocks of equal size. If all elements of each
// block are known to be equal, returns a value with the same blocks. This value is `v` or a smaller
// value from which `v` was broadcast.
std::optional<ValueId> uniform_blocks(const Graph& graph, ValueId v, int64_t blocks);

// A value that is reshaped to `shape` and then broadcast.
struct Spread {
  ValueId value;
  Shape shape;
};
// Returns the smallest array from which `v` is known to be broadcast. It has as many axes as `v`.
Spread find_spread(const Graph& graph, ValueId v);

}  // namespace mxlite::graph
