// Dropout and the addition of a residual become one operator before a recorded graph is
// differentiated: what Dropout returns is neither written nor read. The bits are those of both.
#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/dropout.h"

namespace mxlite::graph {
namespace {

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        uses_(count_uses(graph)),
        side_of_(graph.nodes.size(), -1),
        gone_(graph.nodes.size()) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) find(static_cast<int32_t>(i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (gone_[i]) continue;
      if (side_of_[i] < 0)
        rewrite_.keep(id);
      else
        write(id);
    }
    return rewrite_.finish();
  }

 private:
  // Returns whether `v` is a Dropout that only the node `user` reads. Random numbers are drawn in
  // the order of the nodes, so no other node in between may draw some.
  bool is_free_dropout(ValueId v, int32_t user) const {
    const Node& n = graph_.node(v);
    if (n.kind != NodeKind::kOp || n.op->name != "Dropout" || v.output != 0 ||
        gone_[static_cast<size_t>(v.node)])
      return false;
    const auto& p = *static_cast<const DropoutParams*>(n.params.get());
    if (!p.is_active(graph_.training) || p.axes.ndim() != 0) return false;
    const std::vector<int>& uses = uses_[static_cast<size_t>(v.node)];
    if (uses[0] != 1 || uses[1] != 0) return false;
    for (int32_t i = v.node + 1; i < user; ++i)
      if (is_random(graph_.node(i))) return false;
    return true;
  }

  void find(int32_t id) {
    const Node& sum = graph_.node(id);
    if (!is_addition(sum) || graph_.spec(sum.inputs[0]) != graph_.spec(sum.inputs[1])) return;
    for (const int side : {0, 1}) {
      const ValueId v = sum.inputs[static_cast<size_t>(side)];
      if (!is_free_dropout(v, id)) continue;
      side_of_[static_cast<size_t>(id)] = side;
      gone_[static_cast<size_t>(v.node)] = 1;
      return;
    }
  }

  void write(int32_t id) {
    const Node& sum = graph_.node(id);
    const int side = side_of_[static_cast<size_t>(id)];
    const Node& dropout = graph_.node(sum.inputs[static_cast<size_t>(side)]);
    const ValueId added = sum.inputs[static_cast<size_t>(1 - side)];
    const ValueId made = rewrite_.graph().add_op(
        ops().get("_dropout_add"), dropout.params,
        {rewrite_.map(dropout.inputs[0]), rewrite_.map(added)}, dropout.name);
    rewrite_.replace({id, 0}, made);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<int> side_of_;   // by addition: the operand with Dropout's result, or -1
  std::vector<uint8_t> gone_;  // part of a later node
};

}  // namespace

Graph fuse_dropout(const Graph& graph, const PassContext& context) {
  if (context.small || context.device.type != DeviceType::kCPU) return graph;
  return Fuser(graph).run();
}

}  // namespace mxlite::graph
