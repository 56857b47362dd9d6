// The nodes of a symbol as a graph. Inference, files and runs of the symbol use this graph.
#pragma once
#include <unordered_map>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Calls that replace the calls of nodes.
using Calls = std::unordered_map<const Node*, CallRef>;

// Adds a call whose shapes are unknown to the graph of a symbol.
graph::ValueId add_call(graph::Graph& graph, CallRef call, std::vector<graph::ValueId> inputs);

struct Listing {
  explicit Listing(const NodeOutputs& heads, const Calls& replaced = {});

  // Contains the nodes in 1.x's order. They share the calls of the symbol's nodes. Variables are
  // inputs. Nodes have only visible outputs, and shapes are unknown.
  graph::Graph graph;
  std::vector<NodeRef> nodes;  // indexed by position
  std::unordered_map<const Node*, int32_t> positions;
};

}  // namespace mxlite::symbol
