// Evaluates nodes that depend on no input and no parameter at compile time. Large results, such as
// arrays of zeros, are still computed in each run, because computing them costs less than keeping
// them.
#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {
namespace {

constexpr size_t kLargestBytes = 1 << 20;

bool is_foldable(const Graph& graph, const Node& n, const Rewrite& rewrite,
                 const Graph& rewritten) {
  if (n.kind != NodeKind::kOp || is_random(n) || mutates(graph, n) || !n.post_ops.empty())
    return false;
  size_t bytes = 0;
  for (const TensorSpec& s : n.outputs) bytes += s.bytes();
  if (bytes > kLargestBytes) return false;
  for (ValueId v : n.inputs)
    if (rewritten.node(rewrite.map(v)).kind != NodeKind::kConstant) return false;
  return true;
}

}  // namespace

Graph fold_constants(const Graph& graph, const PassContext& context) {
  Rewrite rewrite(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const auto id = static_cast<int32_t>(i);
    if (!is_foldable(graph, n, rewrite, rewrite.graph())) {
      rewrite.keep(id);
      continue;
    }
    std::vector<NDArrayRef> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewrite.graph().node(rewrite.map(v)).value);
    const NDArrays values =
        invoke(*n.op(), n.params(), inputs, {.device = context.device, .training = graph.training});
    for (size_t k = 0; k < values.size(); ++k) {
      values[k]->wait_to_read();
      rewrite.replace({id, static_cast<int32_t>(k)}, rewrite.add_constant(values[k], n.name()));
    }
  }
  return rewrite.finish();
}

}  // namespace mxlite::graph
