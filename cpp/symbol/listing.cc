#include "cpp/symbol/listing.h"

namespace mxlite::symbol {

Listing::Listing(const Entries& heads, const Calls& replaced) : nodes(topological_order(heads)) {
  const TensorSpec unknown{Shape::unknown(), DType::kFloat32};
  const auto value_of = [&](const Entry& entry) -> graph::ValueId {
    const int32_t id = positions.at(entry.node.get());
    const auto count = static_cast<int>(graph.node(id).outputs.size());
    MX_CHECK_KIND(entry.output >= 0 && entry.output < count, ErrorKind::kIndex, "symbol: output ",
                  entry.output, " of ", entry.node->name(), " is used, which has ", count);
    return {id, entry.output};
  };
  graph.nodes.reserve(nodes.size());
  positions.reserve(nodes.size());
  for (const NodeRef& node : nodes) {
    const auto id = static_cast<int32_t>(graph.nodes.size());
    graph::Node made;
    const auto other = replaced.find(node.get());
    made.call = other == replaced.end() ? node->call : other->second;
    if (node->is_variable()) {
      made.kind = graph::NodeKind::kInput;
      made.index = static_cast<int>(graph.inputs.size());
      graph.inputs.push_back(id);
    }
    made.inputs.reserve(node->inputs.size());
    for (const Entry& entry : node->inputs) made.inputs.push_back(value_of(entry));
    made.outputs.assign(static_cast<size_t>(node->num_outputs()), unknown);
    graph.nodes.push_back(std::move(made));
    positions[node.get()] = id;
  }
  for (const Entry& head : heads) graph.outputs.push_back(value_of(head));
}

}  // namespace mxlite::symbol
