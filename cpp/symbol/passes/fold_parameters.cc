#include "cpp/graph/rewrite.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {

graph::Graph fold_parameters(const graph::Graph& graph, const PassOptions&) {
  graph::Rewrite rewrite(graph);
  for (int32_t id = 0; id < static_cast<int32_t>(graph.nodes.size()); ++id) {
    const graph::Node& node = graph.node(id);
    if (!node.op() || !node.call->attrs.contains(kOffline)) {
      rewrite.keep(id);
      continue;
    }
    auto call = std::make_shared<Call>();
    call->name = node.name();
    const bool is_int8 = node.op()->name == "Cast";
    if (is_int8) call->attrs["__dtype__"] = std::to_string(static_cast<int>(DType::kInt8));
    const graph::ValueId v =
        rewrite.graph().add_leaf(graph::NodeKind::kInput, graph.spec({id, 0}), node.name());
    rewrite.graph().nodes.back().call = std::move(call);
    rewrite.replace({id, 0}, v);
  }
  graph::Graph result = rewrite.finish();
  for (size_t i = 0; i < result.inputs.size(); ++i)  // old inputs come after new ones
    result.nodes[static_cast<size_t>(result.inputs[i])].index = static_cast<int>(i);
  return result;
}

}  // namespace mxlite::symbol
