// Helpers of passes. Rewrite creates a new graph from an old graph: a pass visits the old nodes in
// order and keeps, replaces or drops each node.
#pragma once
#include <vector>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

class Rewrite {
 public:
  explicit Rewrite(const Graph& from);

  Graph& graph() { return new_; }  // gives access to add_op

  // Returns the new value of an old value, whose node must have been kept or replaced.
  ValueId map(ValueId old_value) const;
  std::vector<ValueId> map(std::span<const ValueId> old_values) const;
  // Copies an old node. The copy's inputs are values of the new graph.
  ValueId keep(int32_t old_node);
  ValueId add_constant(const NDArrayRef& value, NodeName name);
  void replace(ValueId old_value, ValueId new_value);

  Graph finish();

 private:
  const Graph& old_;
  Graph new_;
  std::vector<std::vector<ValueId>> where_;  // indexed by old node and output
};

// Returns the parameters of an operator whose schema declares them as P.
template <class P>
const P& params_of(const Node& node) {
  return *static_cast<const P*>(node.params().get());
}

// Counts the uses of each output of each node. A graph output also counts as a use.
std::vector<std::vector<int>> count_uses(const Graph& graph);
// Finds static nodes. Their values change between runs only if a parameter is written. Static nodes
// are constants, parameters that the graph does not write, and deterministic nodes that have
// inputs, all of them static.
std::vector<uint8_t> find_static_nodes(const Graph& graph);
// Returns whether the node writes one of its inputs or is a collective. Passes must neither merge
// nor drop a collective, because other ranks take part in it.
bool mutates(const Graph& graph, const Node& node);
bool is_random(const Node& node);
// Returns whether the node adds two arrays, with or without broadcasting.
bool is_addition(const Node& node);

}  // namespace mxlite::graph
