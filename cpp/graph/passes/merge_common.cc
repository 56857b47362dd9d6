// Merges equal operators on equal values into one node.
#include <map>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

struct Key {
  const OpSchema* op;
  std::vector<ValueId> inputs;
  bool operator<(const Key& o) const {
    if (op != o.op) return op < o.op;
    return std::lexicographical_compare(
        inputs.begin(), inputs.end(), o.inputs.begin(), o.inputs.end(), [](ValueId a, ValueId b) {
          return std::pair(a.node, a.output) < std::pair(b.node, b.output);
        });
  }
};

bool equal_params(const Node& a, const Node& b) {
  return a.params() == b.params() ||
         a.op()->params_values(a.params().get()) == b.op()->params_values(b.params().get());
}

// Returns whether the node reads a value that this graph writes. Equal nodes may then have
// different results.
bool reads_state(const Graph& graph, const Node& n, const std::vector<uint8_t>& is_static) {
  for (ValueId v : n.inputs)
    if (graph.node(v).kind == NodeKind::kParameter && !is_static[static_cast<size_t>(v.node)])
      return true;
  return false;
}

}  // namespace

Graph merge_common(const Graph& graph, const PassContext&) {
  const std::vector<uint8_t> is_static = find_static_nodes(graph);
  std::map<Key, std::vector<int32_t>> seen;  // new nodes, by operator and inputs
  Rewrite rewrite(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    const auto id = static_cast<int32_t>(i);
    if (n.kind != NodeKind::kOp || is_random(n) || mutates(graph, n) || !n.post_ops.empty() ||
        reads_state(graph, n, is_static)) {
      rewrite.keep(id);
      continue;
    }
    std::vector<int32_t>& candidates = seen[{n.op(), rewrite.map(n.inputs)}];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](int32_t c) {
      return equal_params(rewrite.graph().node(c), n);
    });
    if (same == candidates.end()) {
      candidates.push_back(rewrite.keep(id).node);
      continue;
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const auto output = static_cast<int32_t>(k);
      rewrite.replace({id, output}, {*same, output});
    }
  }
  return rewrite.finish();
}

}  // namespace mxlite::graph
