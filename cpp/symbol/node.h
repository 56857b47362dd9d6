// Nodes of symbols: variables and calls of operators, before any shape is known. A symbol is a list
// of entries; nodes are shared by all symbols that were composed of them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpp/symbol/call.h"

namespace mxlite::symbol {

struct Node;
using NodeRef = std::shared_ptr<Node>;

// One output of a node.
struct Entry {
  NodeRef node;
  int output = 0;
  bool operator==(const Entry&) const = default;
};
using Entries = std::vector<Entry>;
using Attributes = std::map<std::string, std::string>;

struct Node {
  std::string op;  // as files name it; empty for a variable
  std::string name;
  Attributes attrs;  // parameters as text, and attributes such as __lr_mult__
  Entries inputs;
  CallRef call;        // null for a variable
  std::string origin;  // the user's line that composed the node: "train.py:12"

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // long chains of nodes end without recursion

  bool is_variable() const { return op.empty(); }
  int num_outputs() const;                   // that a user sees
  int total_outputs() const;                 // in 1.9.1, hidden ones too
  std::string input_name(int index) const;   // fc1_weight, relu0_input0
  std::string output_name(int index) const;  // fc1_output, bn0_mean, split0_output1
  std::vector<int> states() const;           // inputs that are auxiliary states
  std::string label() const;                 // with the line, for errors: fc1 (train.py:12)
  // The text of an error that the node raised, with its name and line.
  std::string error_text(const std::string& error) const;
  // A copy with other inputs; the call is shared.
  NodeRef moved(Entries inputs) const;
};

NodeRef make_variable(std::string name, Attributes attrs = {});
NodeRef make_node(std::string op, std::string name, Attributes attrs, Entries inputs, CallRef call,
                  std::string origin = {});

// All nodes that heads need, inputs before their users, in 1.x's order.
std::vector<NodeRef> topological_order(const Entries& heads);

// The variables of a graph in that order, arguments and auxiliary states.
struct Variables {
  std::vector<NodeRef> all;
  std::vector<bool> is_state;  // parallel to `all`: an operator writes it
};
Variables variables_of(const std::vector<NodeRef>& order);

// Names of variables that operators use only as weights, auxiliary states too.
std::vector<std::string> weight_names(const Entries& heads);

// Variables that operators look rows up in, in topological order, and whether the rule asks for
// gradients of only those rows.
std::vector<std::pair<std::string, bool>> looked_up(const Entries& heads);

// A copy of the graph; entries of variables in `replaced` stand for them. Calls are shared.
Entries substituted(const Entries& heads, const std::map<std::string, Entry>& replaced);

}  // namespace mxlite::symbol
