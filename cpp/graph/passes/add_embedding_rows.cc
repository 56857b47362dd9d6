// If a weight is both the table of an embedding and the weight of an output layer, it has two
// gradients. The embedding's gradient is zero except for a few rows, so this pass adds only these
// rows to the other gradient.
#include "cpp/graph/passes/join_addition.h"
#include "cpp/graph/passes/training_passes.h"

namespace mxlite::graph {
namespace {

class Adder final : public JoinAddition {
 public:
  using JoinAddition::JoinAddition;

 private:
  bool is_op(int32_t id, const char* name) const {
    const Node& n = graph_.node(id);
    return n.kind == NodeKind::kOp && n.op()->name == name && n.post_ops.empty();
  }

  int find(int32_t id) const override {
    if (!is_op(id, "elemwise_add")) return -1;
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (const int side : {1, 0}) {
      const ValueId rows = inputs[static_cast<size_t>(side)];
      if (is_op(rows.node, "_embedding_backward") && is_free(rows)) return side;
    }
    return -1;
  }

  ValueId join(const Node& rows, ValueId total) override {
    return rewrite_.graph().add_op(
        ops().get("_embedding_backward_add"), rows.params(),
        {total, rewrite_.map(rows.inputs[0]), rewrite_.map(rows.inputs[1])}, rows.name());
  }
};

}  // namespace

Graph add_embedding_rows(const Graph& graph, const PassContext& context) {
  if (context.small || context.device.type != DeviceType::kCPU) return graph;
  return Adder(graph).run();
}

}  // namespace mxlite::graph
