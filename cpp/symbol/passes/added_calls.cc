#include "cpp/symbol/passes/added_calls.h"

#include "cpp/symbol/compose.h"

namespace mxlite::symbol {

CallRef named_call(const std::string& op, Attributes attrs, graph::NodeName name) {
  auto call = std::make_shared<Call>(make_call(op, std::move(attrs)));
  call->name = std::move(name);
  return call;
}

std::string value_name(const graph::Graph& graph, graph::ValueId v) {
  const graph::Node& node = graph.node(v);
  return node.op() ? node.call->output_name(v.output, static_cast<int>(node.inputs.size()))
                   : node.name().text;
}

std::string free_name(std::set<std::string>& taken, const std::string& name) {
  std::string found = name;
  for (int i = 1; !taken.insert(found).second; ++i) found = str(name, i);
  return found;
}

}  // namespace mxlite::symbol
