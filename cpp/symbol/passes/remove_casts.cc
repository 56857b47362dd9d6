#include "cpp/graph/rewrite.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {

graph::Graph remove_casts(const graph::Graph& graph, const PassOptions&) {
  graph::Rewrite rewrite(graph);
  for (int32_t id = 0; id < static_cast<int32_t>(graph.nodes.size()); ++id) {
    const graph::Node& node = graph.node(id);
    if (!node.op() || !node.op()->amp.casts) {
      rewrite.keep(id);
      continue;
    }
    for (int32_t i = 0; i < static_cast<int32_t>(node.inputs.size()); ++i)
      rewrite.replace({id, i}, rewrite.map(node.inputs[static_cast<size_t>(i)]));
  }
  return rewrite.finish();
}

}  // namespace mxlite::symbol
