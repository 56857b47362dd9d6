#include "cpp/symbol/listing.h"

namespace mxlite::symbol {

namespace {
const TensorSpec kUnknown{Shape::unknown(), DType::kFloat32};
}

graph::ValueId add_call(graph::Graph& graph, CallRef call, std::vector<graph::ValueId> inputs) {
  graph::Node node;
  node.outputs.assign(static_cast<size_t>(call->num_outputs(static_cast<int>(inputs.size()))),
                      kUnknown);
  node.call = std::move(call);
  node.inputs = std::move(inputs);
  graph.nodes.push_back(std::move(node));
  return {static_cast<int32_t>(graph.nodes.size() - 1), 0};
}

Listing::Listing(const NodeOutputs& heads, const Calls& replaced)
    : nodes(topological_order(heads)) {
  const auto value_of = [&](const NodeOutput& entry) -> graph::ValueId {
    const int32_t id = positions.at(entry.node.get());
    const auto count = static_cast<int>(graph.node(id).outputs.size());
    MX_CHECK_KIND(entry.output >= 0 && entry.output < count, ErrorKind::kIndex,
                  "symbol: outputs of ", entry.node->name(), " must be in [0, ", count - 1,
                  "], got ", entry.output);
    return {id, entry.output};
  };
  graph.nodes.reserve(nodes.size());
  positions.reserve(nodes.size());
  for (const NodeRef& node : nodes) {
    const auto id = static_cast<int32_t>(graph.nodes.size());
    const auto other = replaced.find(node.get());
    const CallRef& call = other == replaced.end() ? node->call : other->second;
    if (node->is_variable()) {
      graph.add_leaf(graph::NodeKind::kInput, kUnknown, {});
      graph.nodes.back().call = call;
    } else {
      std::vector<graph::ValueId> inputs;
      inputs.reserve(node->inputs.size());
      for (const NodeOutput& entry : node->inputs) inputs.push_back(value_of(entry));
      add_call(graph, call, std::move(inputs));
    }
    positions[node.get()] = id;
  }
  for (const NodeOutput& head : heads) graph.outputs.push_back(value_of(head));
}

}  // namespace mxlite::symbol
