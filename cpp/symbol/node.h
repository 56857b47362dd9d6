// Nodes of symbols are variables and calls of operators whose shapes are not known yet. A symbol is
// a list of node outputs. Symbols that are composed of other symbols share their nodes. Compiled
// graphs share the calls.
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
  CallRef call;  // for a variable, a call without an operator
  NodeOutputs inputs;

  Node() = default;
  Node& operator=(Node&&) = delete;  // neither copied nor moved
  ~Node();                           // destroys long chains of nodes without recursion

  bool is_variable() const { return !call->op; }
  const std::string& name() const { return call->name.text; }
  const std::string& op() const { return call->file_op; }  // the operator's name in files
  int num_inputs() const { return static_cast<int>(inputs.size()); }
  int num_outputs() const;  // number of visible outputs
  std::string output_name(int index) const;
  std::vector<int> states() const;  // inputs that are auxiliary states
  // Replaces the call by a copy that `change` modifies. The call itself is not modified, because
  // other nodes may share it.
  void edit(const std::function<void(Call&)>& change);
  // Returns a copy with other inputs, which shares the call.
  NodeRef moved(NodeOutputs inputs) const;
};

NodeRef make_variable(std::string name, Attributes attrs = {});
NodeRef make_node(CallRef call, NodeOutputs inputs);

// Returns all nodes that `heads` depend on, in 1.x's order. Inputs precede their users.
std::vector<NodeRef> topological_order(const NodeOutputs& heads);

// The variables of a graph in topological order: arguments and auxiliary states.
struct Variables {
  std::vector<NodeRef> all;
  std::vector<bool> is_state;  // parallel to `all`: whether an operator writes the variable
};
Variables variables_of(const std::vector<NodeRef>& order);

// Returns the names of variables that operators use only as weights or auxiliary states.
std::vector<std::string> weight_names(const NodeOutputs& heads);

// Returns, in topological order, the variables that operators use as lookup tables. The second
// value says whether the operator's gradient is row-sparse.
std::vector<std::pair<std::string, bool>> looked_up(const NodeOutputs& heads);

}  // namespace mxlite::symbol
