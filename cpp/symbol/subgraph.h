// Parts of symbols that control-flow operators call: loop bodies, loop conditions and branches.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Attribute of nodes that a function creates while it is called to build a subgraph.
inline constexpr const char* kSubgraphName = "__subgraph_name__";

struct Subgraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;  // arguments, then variables that stand for the imports
  std::vector<int> inputs;         // for each variable: index of an input of the operator

  // Returns the indices of the variables that the outputs use, in the order of files.
  std::vector<int> order() const;
  // Returns the indices of the operator's inputs that operators in the subgraph write.
  std::vector<int> written() const;
};

// Specs of a subgraph's variables and outputs. Unknown dimensions are -1.
struct SubgraphSpecs {
  Specs variables, outputs;
};
// Infers all specs from known specs of the variables. Throws a shape error on a mismatch.
SubgraphSpecs infer(const Subgraph& graph, std::span<const TensorSpec> variables);
// Returns the types of the outputs.
std::vector<DType> infer_types(const Subgraph& graph, std::span<const DType> variables);

// Returns a name that is unique in this process, such as foreach0 or foreach1.
std::string unique_subgraph_name(const std::string& name);

// A subgraph whose variables have no inputs of an operator assigned yet.
struct CutSubgraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;
  size_t num_arguments = 0;
  NodeOutputs imports;  // values of the surrounding graph for all other variables
};
// Copies the nodes that are marked with `name`. Values of other nodes that they use become
// imports.
CutSubgraph cut_subgraph(const NodeOutputs& heads, std::vector<NodeRef> arguments,
                         const std::string& name);

// Returns the indices of the variables that the outputs use, in topological order.
std::vector<int> used_variables(const NodeOutputs& heads, const std::vector<NodeRef>& variables);

}  // namespace mxlite::symbol
