// Removes operators that return their input: copies, BlockGrad, Cast and reshape to the same dtype
// or shape, and Dropout outside of training. BlockGrad is not needed, because gradients are already
// in the graph or are not computed.
#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

bool keeps_its_input(const Graph& graph, const Node& n) {
  if (n.kind != NodeKind::kOp || n.inputs.empty() || !n.post_ops.empty()) return false;
  const OpSchema& op = *n.op();
  const bool copies =
      op.alias || (op.is_identity && op.is_identity(n.params().get(), graph.training));
  return copies && graph.spec(n.inputs[0]) == n.outputs[0];
}

}  // namespace

Graph remove_identity(const Graph& graph, const PassContext&) {
  const auto uses = count_uses(graph);
  Rewrite rewrite(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const auto id = static_cast<int32_t>(i);
    // Keeps copies of parameters that this graph writes, because the parameter may change while the
    // copy is in use.
    bool removable = keeps_its_input(graph, n);
    for (size_t k = 1; k < n.outputs.size(); ++k) removable &= uses[i][k] == 0;
    if (removable && graph.node(n.inputs[0]).kind == NodeKind::kParameter) {
      for (const Node& other : graph.nodes)
        for (size_t k = 0; other.kind == NodeKind::kOp && k < other.inputs.size(); ++k)
          removable &= !(other.inputs[k] == n.inputs[0] &&
                         other.op()->mutates(static_cast<int>(k), graph.training));
    }
    if (removable)
      rewrite.replace({id, 0}, rewrite.map(n.inputs[0]));
    else
      rewrite.keep(id);
  }
  return rewrite.finish();
}

}  // namespace mxlite::graph
