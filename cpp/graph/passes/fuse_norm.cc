// Joins BatchNorm, an optional addition and relu into one operator before a recorded graph is
// differentiated. Forward and backward then each make two passes over memory, and they do not store
// intermediate values.
#include <string>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/batch_norm.h"

namespace mxlite::graph {
namespace {

bool is_relu(const Node& n) {
  if (n.kind != NodeKind::kOp || n.inputs.size() != 1) return false;
  if (n.op()->name == "relu") return true;
  if (n.op()->name != "Activation") return false;
  const int i = n.op()->param_index("act_type");
  return attr_to_string(n.op()->params_values(n.params().get())[static_cast<size_t>(i)]) == "relu";
}

class NormFuser {
 public:
  NormFuser(const Graph& graph, const PassContext& context)
      : graph_(graph),
        rewrite_(graph),
        uses_(count_uses(graph)),
        gone_(graph.nodes.size()),
        keeps_bits_(context.device.type == DeviceType::kCUDA) {
    fused_.resize(graph.nodes.size());
  }

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) find(static_cast<int32_t>(i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (gone_[i]) continue;
      if (fused_[i].norm < 0)
        rewrite_.keep(id);
      else
        write(id);
    }
    return rewrite_.finish();
  }

 private:
  struct Fused {
    int32_t norm = -1;
    int added = -1;  // index of the operand that is not the norm, or -1 without an addition
  };

  int uses(ValueId v) const {
    return uses_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }

  // Returns whether `v` is a BatchNorm's result with one reader. No other node may read the
  // statistics, because the joined operator writes them later.
  bool is_free_norm(ValueId v) const {
    const Node& n = graph_.node(v);
    if (n.kind != NodeKind::kOp || n.op()->name != "BatchNorm" || v.output != 0 || uses(v) != 1 ||
        gone_[static_cast<size_t>(v.node)])
      return false;
    if (uses({v.node, 1}) != 0 || uses({v.node, 2}) != 0) return false;
    return uses(n.inputs[3]) == 1 && uses(n.inputs[4]) == 1;
  }

  void find(int32_t id) {
    const Node& relu = graph_.node(id);
    if (!is_relu(relu)) return;
    const ValueId from = relu.inputs[0];
    Fused f;
    if (is_free_norm(from)) {
      f.norm = from.node;
    } else if (is_addition(graph_.node(from)) && uses(from) == 1) {
      const Node& sum = graph_.node(from);
      // Prefers the operand that is computed later, because the other operand is already available
      // at that point.
      const int later = sum.inputs[1].node > sum.inputs[0].node ? 1 : 0;
      for (const int side : {later, 1 - later}) {
        const ValueId v = sum.inputs[static_cast<size_t>(side)];
        const ValueId other = sum.inputs[static_cast<size_t>(1 - side)];
        if (f.norm >= 0 || !is_free_norm(v) || graph_.spec(other) != graph_.spec(v)) continue;
        f = {v.node, 1 - side};
      }
      if (f.norm >= 0) gone_[static_cast<size_t>(from.node)] = 1;
    }
    if (f.norm < 0) return;
    gone_[static_cast<size_t>(f.norm)] = 1;
    fused_[static_cast<size_t>(id)] = f;
  }

  void write(int32_t id) {
    const Fused f = fused_[static_cast<size_t>(id)];
    const Node& norm = graph_.node(f.norm);
    std::vector<ValueId> inputs = rewrite_.map(norm.inputs);
    const char* op = "_batch_norm_relu";
    if (f.added >= 0) {
      const Node& sum = graph_.node(graph_.node(id).inputs[0]);
      inputs.push_back(rewrite_.map(sum.inputs[static_cast<size_t>(f.added)]));
      op = keeps_bits_ ? "_batch_norm_add_relu_bits" : "_batch_norm_add_relu";
    }
    const ValueId made =
        rewrite_.graph().add_op(ops().get(op), norm.params(), std::move(inputs), norm.name());
    rewrite_.replace({id, 0}, made);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<uint8_t> gone_;  // for each node: whether it is joined into a later node
  std::vector<Fused> fused_;   // indexed by relu node
  const bool keeps_bits_;  // whether backward uses a saved bit per element instead of relu's output
};

}  // namespace

Graph fuse_norm(const Graph& graph, const PassContext& context) {
  if (context.small || !graph.training) return graph;
  return NormFuser(graph, context).run();
}

}  // namespace mxlite::graph
