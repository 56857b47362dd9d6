// Nodes of symbols: variables and calls of operators, before any shape is known. A symbol is a list
// of entries; nodes are shared by all symbols that were composed of them, and with compiled graphs
// they share their calls.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/call.h"

namespace mxlite::symbol {

using graph::Attributes;
using graph::Call;
using graph::CallRef;

struct Node;
using NodeRef = std::shared_ptr<Node>;

// One output of a node.
struct NodeOutput {
  NodeRef node;
  int output = 0;
  bool operator==(const NodeOutput&) const = default;
};
using NodeOutputs = std::vector<NodeOutput>;

struct Node {
  CallRef call;  // without an operator for a variable
  NodeOutputs inputs;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // long chains of nodes end without recursion

  bool is_variable() const { return !call->op; }
  const std::string& name() const { return call->name.text; }
  const std::string& op() const { return call->file_op; }  // as files name it
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  int num_outputs() const;  // that a user sees
  std::string output_name(int index) const;
  std::vector<int> states() const;  // inputs that are auxiliary states
  // Replaces the call by a copy that `change` has changed: other nodes may have the call, too.
  void edit(const std::function<void(Call&)>& change);
  // A copy with other inputs; the call is shared.
  NodeRef moved(NodeOutputs inputs) const;
};

NodeRef make_variable(std::string name, Attributes attrs = {});
NodeRef make_node(CallRef call, NodeOutputs inputs);

// All nodes that heads need, inputs before their users, in 1.x's order.
std::vector<NodeRef> topological_order(const NodeOutputs& heads);

// The variables of a graph in that order, arguments and auxiliary states.
struct Variables {
  std::vector<NodeRef> all;
  std::vector<bool> is_state;  // parallel to `all`: an operator writes it
};
Variables variables_of(const std::vector<NodeRef>& order);

// Names of variables that operators use only as weights, auxiliary states too.
std::vector<std::string> weight_names(const NodeOutputs& heads);

// Variables that operators look rows up in, in topological order, and whether the rule asks for
// gradients of only those rows.
std::vector<std::pair<std::string, bool>> looked_up(const NodeOutputs& heads);

}  // namespace mxlite::symbol
