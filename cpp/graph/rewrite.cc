#include "cpp/graph/rewrite.h"

#include "cpp/ops/collective/run.h"

namespace mxlite::graph {

Rewrite::Rewrite(const Graph& from) : old_(from), where_(from.nodes.size()) {
  new_.name = from.name;
  new_.training = from.training;
  new_.nodes.reserve(from.nodes.size());
}

ValueId Rewrite::map(ValueId v) const {
  const auto& outputs = where_[static_cast<size_t>(v.node)];
  MX_ASSERT(static_cast<size_t>(v.output) < outputs.size());
  const ValueId now = outputs[static_cast<size_t>(v.output)];
  MX_ASSERT(now.node >= 0);
  return now;
}

std::vector<ValueId> Rewrite::map(std::span<const ValueId> values) const {
  std::vector<ValueId> result;
  result.reserve(values.size());
  for (ValueId v : values) result.push_back(map(v));
  return result;
}

ValueId Rewrite::keep(int32_t old_node) {
  Node node = old_.node(old_node);
  for (ValueId& v : node.inputs) v = map(v);
  const auto id = static_cast<int32_t>(new_.nodes.size());
  if (node.kind == NodeKind::kInput) new_.inputs.push_back(id);
  if (node.kind == NodeKind::kParameter) new_.parameters.push_back(id);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    replace({old_node, static_cast<int32_t>(i)}, {id, static_cast<int32_t>(i)});
  new_.nodes.push_back(std::move(node));
  return {id, 0};
}

ValueId Rewrite::add_constant(const NDArrayRef& value, NodeName name) {
  return new_.add_leaf(NodeKind::kConstant, value->spec(), std::move(name), value);
}

void Rewrite::replace(ValueId old_value, ValueId new_value) {
  auto& outputs = where_[static_cast<size_t>(old_value.node)];
  outputs.resize(old_.node(old_value.node).outputs.size());
  outputs[static_cast<size_t>(old_value.output)] = new_value;
}

Graph Rewrite::finish() {
  new_.outputs = map(old_.outputs);
  return std::move(new_);
}

std::vector<std::vector<int>> count_uses(const Graph& graph) {
  std::vector<std::vector<int>> uses;
  for (const Node& n : graph.nodes) uses.emplace_back(n.outputs.size(), 0);
  auto use = [&](ValueId v) { ++uses[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)]; };
  for (const Node& n : graph.nodes)
    for (ValueId v : n.inputs) use(v);
  for (ValueId v : graph.outputs) use(v);
  return uses;
}

bool mutates(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp) return false;
  if (collective::is_collective(*node.op())) return true;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.op()->mutates(static_cast<int>(i), graph.training)) return true;
  return false;
}

bool is_random(const Node& node) {
  return node.kind == NodeKind::kOp && static_cast<bool>(node.op()->random_count);
}

bool is_addition(const Node& node) {
  return node.kind == NodeKind::kOp && node.inputs.size() == 2 &&
         (node.op()->name == "elemwise_add" || node.op()->name == "broadcast_add");
}

std::vector<uint8_t> find_static_nodes(const Graph& graph) {
  std::vector<uint8_t> result(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    result[i] = n.kind == NodeKind::kParameter || n.kind == NodeKind::kConstant;
    if (n.kind == NodeKind::kParameter) continue;
    for (size_t k = 0; n.kind == NodeKind::kOp && k < n.inputs.size(); ++k)
      if (n.op()->mutates(static_cast<int>(k), graph.training))
        result[static_cast<size_t>(n.inputs[k].node)] = 0;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.kind != NodeKind::kOp || n.inputs.empty() || is_random(n) || mutates(graph, n)) continue;
    bool all = true;
    for (ValueId v : n.inputs) all &= result[static_cast<size_t>(v.node)] != 0;
    result[i] = all;
  }
  return result;
}

}  // namespace mxlite::graph
