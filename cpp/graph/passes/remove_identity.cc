// Removes operators that return their input: copies, BlockGrad (gradients are in the graph already
// or not wanted), Cast and reshape to the value's own dtype or shape, Dropout when not training.
#include <algorithm>
#include <string_view>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool keeps_its_input(const Graph& graph, const Node& n) {
  if (n.kind != NodeKind::kOp || n.inputs.empty() || !n.post_ops.empty()) return false;
  const std::string_view name = n.op->name;
  const bool same = graph.spec(n.inputs[0]) == n.outputs[0];
  if (one_of(name, {"_copy", "_copyto", "BlockGrad", "make_loss"})) return same;
  if (one_of(name, {"Cast", "amp_cast"})) return same;
  if (n.op->alias) return same;
  if (name == "Dropout") {
    const int mode = n.op->param_index("mode");
    if (graph.training || mode < 0) return false;
    return attr_text(n.op->params_values(n.params.get())[static_cast<size_t>(mode)]) != "always";
  }
  return false;
}

}  // namespace

Graph remove_identity(const Graph& graph, const PassContext&) {
  const auto uses = count_uses(graph);
  Rewrite rewrite(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const auto id = static_cast<int32_t>(i);
    // The value must not change under the copy: a parameter that this graph writes keeps its
    // copies.
    bool removable = keeps_its_input(graph, n);
    for (size_t k = 1; k < n.outputs.size(); ++k) removable &= uses[i][k] == 0;
    if (removable && graph.node(n.inputs[0]).kind == NodeKind::kParameter) {
      for (const Node& other : graph.nodes)
        for (size_t k = 0; other.kind == NodeKind::kOp && k < other.inputs.size(); ++k)
          removable &= !(other.inputs[k] == n.inputs[0] &&
                         other.op->mutates(static_cast<int>(k), graph.training));
    }
    if (removable)
      rewrite.replace({id, 0}, rewrite.map(n.inputs[0]));
    else
      rewrite.keep(id);
  }
  return rewrite.finish();
}

}  // namespace mxlite::graph
