// Joins Dropout and the addition of a residual into one operator before a recorded graph is
// differentiated. The result of Dropout is then not stored. Results are bitwise equal.
#include "cpp/graph/passes/join_addition.h"
#include "cpp/graph/passes/training_passes.h"
#include "cpp/ops/nn/dropout.h"

namespace mxlite::graph {
namespace {

class DropoutFuser final : public JoinAddition {
 public:
  using JoinAddition::JoinAddition;

 private:
  // Returns whether `v` is the result of a Dropout and is read only by the node `user`. No node
  // between the two may be random, because random numbers are drawn in the order of the nodes.
  bool is_free_dropout(ValueId v, int32_t user) const {
    const Node& n = graph_.node(v);
    if (n.kind != NodeKind::kOp || n.op()->name != "Dropout" || v.output != 0 || !is_free(v))
      return false;
    const auto& p = params_of<DropoutParams>(n);
    if (!p.is_active(graph_.training) || p.axes.ndim() != 0) return false;
    if (uses_[static_cast<size_t>(v.node)][1] != 0) return false;
    for (int32_t i = v.node + 1; i < user; ++i)
      if (is_random(graph_.node(i))) return false;
    return true;
  }

  int find(int32_t id) const override {
    const Node& sum = graph_.node(id);
    if (!is_addition(sum) || graph_.spec(sum.inputs[0]) != graph_.spec(sum.inputs[1])) return -1;
    for (const int side : {0, 1})
      if (is_free_dropout(sum.inputs[static_cast<size_t>(side)], id)) return side;
    return -1;
  }

  ValueId join(const Node& dropout, ValueId added) override {
    return rewrite_.graph().add_op(ops().get("_dropout_add"), dropout.params(),
                                   {rewrite_.map(dropout.inputs[0]), added}, dropout.name());
  }
};

}  // namespace

Graph fuse_dropout(const Graph& graph, const PassContext& context) {
  if (context.small) return graph;
  return DropoutFuser(graph).run();
}

}  // namespace mxlite::graph
