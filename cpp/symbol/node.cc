#include "cpp/symbol/node.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace mxlite::symbol {

Node::~Node() {
  NodeOutputs pending = std::move(inputs);
  while (!pending.empty()) {
    const NodeRef node = std::move(pending.back().node);
    pending.pop_back();
    if (!node || node.use_count() > 1) continue;
    std::move(node->inputs.begin(), node->inputs.end(), std::back_inserter(pending));
    node->inputs.clear();
  }
}

int Node::num_outputs() const { return is_variable() ? 1 : call->num_outputs(num_inputs()); }

std::string Node::output_name(int index) const {
  return is_variable() ? name() : call->output_name(index, num_inputs());
}

std::vector<int> Node::states() const {
  return is_variable() ? std::vector<int>() : call->states(num_inputs());
}

void Node::edit(const std::function<void(Call&)>& change) {
  auto copy = std::make_shared<Call>(*call);
  change(*copy);
  call = std::move(copy);
}

NodeRef Node::moved(NodeOutputs others) const { return make_node(call, std::move(others)); }

NodeRef make_variable(std::string name, Attributes attrs) {
  auto call = std::make_shared<Call>();
  call->name = std::move(name);
  call->attrs = std::move(attrs);
  return make_node(std::move(call), {});
}

NodeRef make_node(CallRef call, NodeOutputs inputs) {
  auto node = std::make_shared<Node>();
  node->call = std::move(call);
  node->inputs = std::move(inputs);
  return node;
}

std::vector<NodeRef> topological_order(const NodeOutputs& heads) {
  std::vector<NodeRef> order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<NodeRef, size_t>> stack;
  for (const NodeOutput& head : heads) {
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

std::vector<std::string> weight_names(const NodeOutputs& heads) {
  std::set<std::string> weights, others;
  const std::vector<NodeRef> order = topological_order(heads);
  for (const NodeRef& node : order) {
    const std::vector<int> states = node->states();
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Node& source = *node->inputs[i].node;
      if (!source.is_variable()) continue;
      const bool completed =
          node->call->completes() && i > 0 && source.name().find("label") == std::string::npos;
      const bool state =
          std::find(states.begin(), states.end(), static_cast<int>(i)) != states.end();
      (completed || state ? weights : others).insert(source.name());
    }
  }
  for (const NodeOutput& head : heads)
    if (head.node->is_variable()) others.insert(head.node->name());
  for (const std::string& name : others) weights.erase(name);
  const Variables variables = variables_of(order);
  for (size_t i = 0; i < variables.all.size(); ++i)
    if (variables.is_state[i]) weights.insert(variables.all[i]->name());
  return {weights.begin(), weights.end()};
}

std::vector<std::pair<std::string, bool>> looked_up(const NodeOutputs& heads) {
  std::vector<std::pair<std::string, bool>> result;
  for (const NodeRef& node : topological_order(heads)) {
    const OpSchema* op = node->call->op;
    if (!op || op->storage.looked_up < 0) continue;
    const NodeOutput& table = node->inputs.at(static_cast<size_t>(op->storage.looked_up));
    if (!table.node->is_variable()) continue;
    const auto alias = op->storage.aliases.find(node->op());
    const bool always =
        alias != op->storage.aliases.end() && alias->second == AliasStorage::kRowGradient;
    result.emplace_back(table.node->name(),
                        always || op->storage.row_gradient(node->call->params.get()));
  }
  return result;
}

}  // namespace mxlite::symbol
