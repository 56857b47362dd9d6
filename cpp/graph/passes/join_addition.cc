#include "cpp/graph/passes/join_addition.h"

namespace mxlite::graph {

JoinAddition::JoinAddition(const Graph& graph)
    : graph_(graph),
      rewrite_(graph),
      uses_(count_uses(graph)),
      side_of_(graph.nodes.size(), -1),
      gone_(graph.nodes.size()) {}

bool JoinAddition::is_free(ValueId v) const {
  return !gone_[static_cast<size_t>(v.node)] && uses_[static_cast<size_t>(v.node)][0] == 1;
}

Graph JoinAddition::run() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    side_of_[i] = find(static_cast<int32_t>(i));
    if (side_of_[i] < 0) continue;
    const ValueId operand = graph_.nodes[i].inputs[static_cast<size_t>(side_of_[i])];
    gone_[static_cast<size_t>(operand.node)] = 1;
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (gone_[i]) continue;
    if (side_of_[i] < 0) {
      rewrite_.keep(id);
      continue;
    }
    const std::vector<ValueId>& operands = graph_.nodes[i].inputs;
    const Node& maker = graph_.node(operands[static_cast<size_t>(side_of_[i])]);
    const ValueId other = rewrite_.map(operands[static_cast<size_t>(1 - side_of_[i])]);
    rewrite_.replace({id, 0}, join(maker, other));
  }
  return rewrite_.finish();
}

}  // namespace mxlite::graph
