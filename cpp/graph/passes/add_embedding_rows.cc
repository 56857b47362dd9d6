// A table that is used twice (an embedding and the output layer that is tied to it) has two
// gradients. The embedding's is zero but for a few rows: these are added to the other gradient
// instead of a whole array.
#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {
namespace {

class Adder {
 public:
  explicit Adder(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        uses_(count_uses(graph)),
        rows_of_(graph.nodes.size(), -1),
        gone_(graph.nodes.size()) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) find(static_cast<int32_t>(i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (gone_[i]) continue;
      if (rows_of_[i] < 0)
        rewrite_.keep(id);
      else
        write(id);
    }
    return rewrite_.finish();
  }

 private:
  bool is_op(int32_t id, const char* name) const {
    const Node& n = graph_.node(id);
    return n.kind == NodeKind::kOp && n.op->name == name && n.post_ops.empty();
  }

  void find(int32_t id) {
    if (!is_op(id, "elemwise_add")) return;
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (const int side : {1, 0}) {
      const ValueId rows = inputs[static_cast<size_t>(side)];
      if (!is_op(rows.node, "_embedding_backward") || gone_[static_cast<size_t>(rows.node)] ||
          uses_[static_cast<size_t>(rows.node)][0] != 1)
        continue;
      rows_of_[static_cast<size_t>(id)] = side;
      gone_[static_cast<size_t>(rows.node)] = 1;
      return;
    }
  }

  void write(int32_t id) {
    const Node& sum = graph_.node(id);
    const int side = rows_of_[static_cast<size_t>(id)];
    const Node& rows = graph_.node(sum.inputs[static_cast<size_t>(side)]);
    const ValueId total = sum.inputs[static_cast<size_t>(1 - side)];
    const ValueId made = rewrite_.graph().add_op(
        ops().get("_embedding_backward_add"), rows.params,
        {rewrite_.map(total), rewrite_.map(rows.inputs[0]), rewrite_.map(rows.inputs[1])},
        rows.name);
    rewrite_.replace({id, 0}, made);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<int> rows_of_;   // by addition: the operand with the embedding's gradient, or -1
  std::vector<uint8_t> gone_;  // part of a later node
};

}  // namespace

Graph add_embedding_rows(const Graph& graph, const PassContext& context) {
  if (context.small || context.device.type != DeviceType::kCPU) return graph;
  return Adder(graph).run();
}

}  // namespace mxlite::graph
