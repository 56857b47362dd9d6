// Reads and writes loops and branches in -symbol.json files. Attributes and subgraphs have the same
// form as in files of 1.9.1. A node lists each input once. Attributes ending in _locs map inputs of
// the node, or variables of a subgraph, to their roles.
#pragma once
#include <string>
#include <vector>

#include "cpp/symbol/control_flow.h"
#include "cpp/symbol/files.h"

namespace mxlite::symbol {

// A subgraph of a file. It has outputs, and variables in the order of the file.
struct LoadedGraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;
};

// Returns whether nodes of this operator have subgraphs.
bool is_control_flow(const std::string& op);

// Creates the call of a node in a file. Attributes that do not describe the call remain attributes.
// Throws a FileError that begins with `label` if the attributes do not match the subgraphs.
ControlFlowCall load_control_flow(const std::string& op, const Attributes& attrs,
                                  const NodeOutputs& inputs, std::vector<LoadedGraph> graphs,
                                  const std::string& label);

// Returns a node's attributes and subgraphs in the form used in files. Nodes without subgraphs have
// only attributes.
ControlFlow::Saved saved_form(const Node& node);

}  // namespace mxlite::symbol
