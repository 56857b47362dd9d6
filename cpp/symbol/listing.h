// The nodes of a symbol by position: what inference, files and runs of a symbol read.
#pragma once
#include <unordered_map>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Calls that stand for those of nodes.
using Calls = std::unordered_map<const Node*, CallRef>;

// Adds a call, whose shapes are not known, to the graph of a symbol.
graph::ValueId add_call(graph::Graph& graph, CallRef call, std::vector<graph::ValueId> inputs);

struct Listing {
  explicit Listing(const NodeOutputs& heads, const Calls& replaced = {});

  // In 1.x's order. Variables are its inputs; it has the nodes' calls, and only outputs that a user
  // sees. Shapes are unknown.
  graph::Graph graph;
  std::vector<NodeRef> nodes;  // by position
  std::unordered_map<const Node*, int32_t> positions;
};

}  // namespace mxlite::symbol
