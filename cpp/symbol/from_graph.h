// Creates symbols from traced graphs and from recorded calls.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>

#include "cpp/graph/graph.h"
#include "cpp/symbol/files.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Returns a node named `name` for a call that has run. Keeps the call unchanged if it comes from a
// symbol; otherwise converts the parameters to text. If files do not support the operator, throws a
// not-supported error that names the operator and the user's line.
NodeRef node_of_run(const CallRef& call, NodeOutputs inputs, std::string name);

// Names of the nodes of a traced graph in a symbol, such as dense0_fullyconnected0. Each block has
// a separate count.
class TraceNames {
 public:
  explicit TraceNames(std::set<std::string> taken) : taken_(std::move(taken)) {}
  std::string operator()(const graph::Graph& graph, const graph::Node& node);
  std::string unique(const std::string& name);  // appends a number if the name is taken

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> counts_;
};

using NodeName = std::function<std::string(const graph::Graph&, const graph::Node&)>;
// Returns the outputs of a traced graph as a symbol. `leaves` replace the graph's inputs, followed
// by its parameters. Constants become variables. `make_call` creates the calls of operators written
// in Python. Throws like node_of_run if symbols do not support an operator.
NodeOutputs from_graph(const graph::Graph& graph, std::span<const NodeOutput> leaves,
                       const NodeName& name, const MakeCall& make_call);
// Returns the outputs of a graph that was created from a symbol. The nodes have the same names, and
// the variables are new.
NodeOutputs from_graph(const graph::Graph& graph);

// Returns a copy of a symbol in which `leaf(variable)` replaces each variable.
NodeOutputs with_leaves(const NodeOutputs& heads,
                        const std::function<NodeOutput(const NodeRef&)>& leaf);
// Returns a copy of a symbol in which entries of `replaced` replace the variables with the same
// names.
NodeOutputs substituted(const NodeOutputs& heads,
                        const std::map<std::string, NodeOutput>& replaced);

}  // namespace mxlite::symbol
