// Parts of symbols that operators of control flow call: bodies and conditions of loops, branches.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Marks the nodes that a function made while it was called for a subgraph.
inline constexpr const char* kSubgraphName = "__subgraph_name__";

struct Subgraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;  // arguments, then those that stand for imports
  std::vector<int> inputs;         // by variable: its position among the operator's inputs

  // Returns the numbers of the variables that the outputs use, in the order of files.
  std::vector<int> order() const;
  // Returns the positions of the operator's inputs that operators of the subgraph write.
  std::vector<int> written() const;
};

// Specs of a subgraph's variables and outputs; unknown extents are -1.
struct SubgraphSpecs {
  Specs variables, outputs;
};
// Infers them from what is known of the variables. Throws a shape error if shapes do not fit.
SubgraphSpecs infer(const Subgraph& graph, std::span<const TensorSpec> variables);
// Returns the types of the outputs.
std::vector<DType> infer_types(const Subgraph& graph, std::span<const DType> variables);

// Returns a name that no other subgraph of this process has: foreach0, foreach1.
std::string unique_subgraph_name(const std::string& name);

// A subgraph before it is known which inputs of an operator it gets.
struct CutSubgraph {
  NodeOutputs heads;
  std::vector<NodeRef> variables;
  size_t num_arguments = 0;
  NodeOutputs imports;  // values of the surrounding graph, for the variables behind the arguments
};
// Copies the nodes that are marked with `name`; other values that they use become imports.
CutSubgraph cut_subgraph(const NodeOutputs& heads, std::vector<NodeRef> arguments,
                         const std::string& name);

// Returns the numbers of the variables that the outputs use, in topological order.
std::vector<int> used_variables(const NodeOutputs& heads, const std::vector<NodeRef>& variables);

}  // namespace mxlite::symbol
