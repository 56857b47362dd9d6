#include "cpp/symbol/node.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace mxlite::symbol {

Node::~Node() {
  Entries pending = std::move(inputs);
  while (!pending.empty()) {
    const NodeRef node = std::move(pending.back().node);
    pending.pop_back();
    if (!node || node.use_count() > 1) continue;
    std::move(node->inputs.begin(), node->inputs.end(), std::back_inserter(pending));
    node->inputs.clear();
  }
}

int Node::num_outputs() const {
  return is_variable() ? 1 : call->num_visible(static_cast<int>(inputs.size()));
}

int Node::total_outputs() const {
  if (is_variable()) return 1;
  const SymbolTraits& traits = call->traits(op);
  if (traits.total_outputs) return traits.total_outputs(call->params(), num_outputs());
  return call->num_outputs(static_cast<int>(inputs.size()));
}

std::string Node::input_name(int index) const {
  const SymbolTraits& traits = call->traits(op);
  std::string label;
  if (call->is_variadic()) {
    std::vector<std::string> names;
    if (traits.named_inputs) names = traits.named_inputs(call->params());
    const auto at = static_cast<size_t>(index);
    label = at < names.size() ? names[at] : str("arg", index);
  } else if (inputs.size() > 1 || traits.names_single_input) {
    label = call->input_name(index);
  } else {
    label = str("input", index);
  }
  return name + "_" + label;
}

std::string Node::output_name(int index) const {
  if (is_variable()) return name;
  std::vector<std::string> names = call->output_names();
  if (names.empty()) names = call->traits(op).output_names;
  const auto at = static_cast<size_t>(index);
  if (at < names.size()) return name + "_" + names[at];
  return name + "_output" + (total_outputs() > 1 ? std::to_string(index) : "");
}

std::vector<int> Node::states() const {
  if (is_variable()) return {};
  const std::vector<int>& read = call->traits(op).read_states;
  return read.empty() ? call->written(static_cast<int>(inputs.size())) : read;
}

std::string Node::label() const { return origin.empty() ? name : str(name, " (", origin, ")"); }

std::string Node::error_text(const std::string& error) const {
  const std::string line = origin.empty() ? "" : "\n    composed at " + origin;
  return str("Error in operator ", name, ": ", error, line);
}

NodeRef Node::moved(Entries others) const {
  return make_node(op, name, attrs, std::move(others), call, origin);
}

NodeRef make_variable(std::string name, Attributes attrs) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  node->attrs = std::move(attrs);
  return node;
}

NodeRef make_node(std::string op, std::string name, Attributes attrs, Entries inputs, CallRef call,
                  std::string origin) {
  NodeRef node = make_variable(std::move(name), std::move(attrs));
  node->op = std::move(op);
  node->inputs = std::move(inputs);
  node->call = std::move(call);
  node->origin = std::move(origin);
  return node;
}

std::vector<NodeRef> topological_order(const Entries& heads) {
  std::vector<NodeRef> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<NodeRef, size_t>> stack;
  for (const Entry& head : heads) {
    if (!seen.insert(head.node.get()).second) continue;
    stack.emplace_back(head.node, 0);
    while (!stack.empty()) {
      auto& [node, position] = stack.back();
      if (position == node->inputs.size()) {
        order.push_back(std::move(node));
        stack.pop_back();
        continue;
      }
      const NodeRef& producer = node->inputs[position++].node;
      if (seen.insert(producer.get()).second) stack.emplace_back(producer, 0);
    }
  }
  return order;
}

Variables variables_of(const std::vector<NodeRef>& order) {
  std::unordered_set<const Node*> written;
  for (const NodeRef& node : order)
    for (const int i : node->states()) {
      const Node* source = node->inputs[static_cast<size_t>(i)].node.get();
      if (source->is_variable()) written.insert(source);
    }
  Variables result;
  for (const NodeRef& node : order) {
    if (!node->is_variable()) continue;
    result.all.push_back(node);
    result.is_state.push_back(written.contains(node.get()));
  }
  return result;
}

std::vector<std::string> weight_names(const Entries& heads) {
  std::set<std::string> weights, others;
  const std::vector<NodeRef> order = topological_order(heads);
  for (const NodeRef& node : order) {
    const std::vector<int> states = node->states();
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Node& source = *node->inputs[i].node;
      if (!source.is_variable()) continue;
      const bool completed =
          node->call->completes() && i > 0 && source.name.find("label") == std::string::npos;
      const bool state =
          std::find(states.begin(), states.end(), static_cast<int>(i)) != states.end();
      (completed || state ? weights : others).insert(source.name);
    }
  }
  for (const Entry& head : heads)
    if (head.node->is_variable()) others.insert(head.node->name);
  for (const std::string& name : others) weights.erase(name);
  const Variables variables = variables_of(order);
  for (size_t i = 0; i < variables.all.size(); ++i)
    if (variables.is_state[i]) weights.insert(variables.all[i]->name);
  return {weights.begin(), weights.end()};
}

std::vector<std::pair<std::string, bool>> looked_up(const Entries& heads) {
  std::vector<std::pair<std::string, bool>> result;
  for (const NodeRef& node : topological_order(heads)) {
    const OpSchema* op = node->call ? node->call->schema() : nullptr;
    if (!op || op->storage.looked_up < 0) continue;
    const Entry& table = node->inputs.at(static_cast<size_t>(op->storage.looked_up));
    if (!table.node->is_variable()) continue;
    const auto alias = op->storage.aliases.find(node->op);
    const bool always =
        alias != op->storage.aliases.end() && alias->second == AliasStorage::kRowGradient;
    result.emplace_back(table.node->name, always || op->storage.row_gradient(node->call->params()));
  }
  return result;
}

Entries substituted(const Entries& heads, const std::map<std::string, Entry>& replaced) {
  std::unordered_map<const Node*, NodeRef> made;
  const auto moved = [&](const Entry& entry) -> Entry {
    if (entry.node->is_variable()) {
      const auto found = replaced.find(entry.node->name);
      if (found != replaced.end()) return found->second;
    }
    return {made.at(entry.node.get()), entry.output};
  };
  for (const NodeRef& node : topological_order(heads)) {
    Entries inputs;
    for (const Entry& entry : node->inputs) inputs.push_back(moved(entry));
    made[node.get()] = node->moved(std::move(inputs));
  }
  Entries result;
  for (const Entry& entry : heads) result.push_back(moved(entry));
  return result;
}

}  // namespace mxlite::symbol
