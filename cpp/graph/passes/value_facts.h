// Finds facts about values before a graph runs. "Not known" is always a correct answer: passes that
// ask then leave the graph as it is.
#pragma once
#include <limits>
#include <optional>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

// Smallest and largest element; infinite where not known.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_constant() const { return low == high; }
};
Bounds bounds_of(const Graph& graph, ValueId v);

// Returns whether every element is known to be 0 or 1.
bool is_binary(const Graph& graph, ValueId v);

// The flat elements of `v` are cut into `blocks` blocks of one size. If each is known to repeat one
// element, returns a value of which this holds, too, with the same elements: `v`, or what it was
// broadcast from.
std::optional<ValueId> uniform_blocks(const Graph& graph, ValueId v, int64_t blocks);

// A value that gives another one when it is reshaped to `shape` and broadcast.
struct Spread {
  ValueId value;
  Shape shape;
};
// Returns the smallest array that `v` is known to be broadcast from. `shape` has as many axes as
// `v`.
Spread find_spread(const Graph& graph, ValueId v);

}  // namespace mxlite::graph
