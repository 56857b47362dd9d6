// Drops nodes whose results are not used. Keeps all inputs and parameters, because their positions
// are fixed.
#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {

Graph remove_dead(const Graph& graph, const PassContext&) {
  std::vector<uint8_t> live(graph.nodes.size());
  for (ValueId v : graph.outputs) live[static_cast<size_t>(v.node)] = 1;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& n = graph.nodes[i];
    live[i] |= n.kind == NodeKind::kInput || n.kind == NodeKind::kParameter || mutates(graph, n);
    if (!live[i]) continue;
    for (ValueId v : n.inputs) live[static_cast<size_t>(v.node)] = 1;
  }
  Rewrite rewrite(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (live[i]) rewrite.keep(static_cast<int32_t>(i));
  return rewrite.finish();
}

}  // namespace mxlite::graph
