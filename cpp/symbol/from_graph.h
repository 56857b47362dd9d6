// Symbols of what ran: operators with their parameters as the tape and traced graphs have them.
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

// The node of a call that ran, named `name`: a symbol's call as it is, another one with its
// parameters as text. An operator that files do not have throws an error of the kind "not
// supported" that names the operator and the user's line.
NodeRef node_of_run(const CallRef& call, NodeOutputs inputs, std::string name);

// Gives the nodes of a traced graph their names in a symbol: dense0_fullyconnected0, counted for
// each block.
class TraceNames {
 public:
  explicit TraceNames(std::set<std::string> taken) : taken_(std::move(taken)) {}
  std::string operator()(const graph::Graph& graph, const graph::Node& node);
  std::string unique(const std::string& name);  // with a number behind it if it is taken

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> counts_;
};

using NodeName = std::function<std::string(const graph::Graph&, const graph::Node&)>;
// The outputs of a traced graph. Leaves: its inputs, then its parameters; constants are variables.
// `make_call` makes the calls of operators written in Python. An operator that symbols cannot hold
// throws the error of node_of_run.
NodeOutputs from_graph(const graph::Graph& graph, std::span<const NodeOutput> leaves,
                       const NodeName& name, const MakeCall& make_call);
// The outputs of the graph of a symbol, with the names that it has and new variables.
NodeOutputs from_graph(const graph::Graph& graph);

// A copy of a symbol in which `leaf(variable)` stands for each variable.
NodeOutputs with_leaves(const NodeOutputs& heads,
                        const std::function<NodeOutput(const NodeRef&)>& leaf);
// A copy in which entries of variables in `replaced` stand for them.
NodeOutputs substituted(const NodeOutputs& heads,
                        const std::map<std::string, NodeOutput>& replaced);

}  // namespace mxlite::symbol
