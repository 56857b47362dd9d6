// Loops and branches in -symbol.json files: attributes and subgraphs as 1.9.1 writes them. A node
// lists its inputs once; attributes ending in _locs say which of them, or which variable of a
// subgraph, plays which part.
#pragma once
#include <string>
#include <vector>

#include "cpp/symbol/control_flow.h"
#include "cpp/symbol/files.h"

namespace mxlite::symbol {

// A subgraph of a file: its outputs, and its variables in the order of the file.
struct LoadedGraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;
};

// Returns whether nodes of the operator have subgraphs.
bool is_control_flow(const std::string& op);

// Makes the call of a node that a file has; the call keeps the attributes that it was not made of.
// Throws a FileError that begins with `label` if the attributes do not fit the subgraphs.
ControlFlowCall load_control_flow(const std::string& op, const Attributes& attrs,
                                  const NodeOutputs& inputs, std::vector<LoadedGraph> graphs,
                                  const std::string& label);

// Returns a node's attributes and subgraphs as files have them; any other node has its attributes.
ControlFlow::Saved saved_form(const Node& node);

}  // namespace mxlite::symbol
