// Backward recomputes a large GELU and computes its gradient from the same data. This pass joins
// both into one operator, which reads the data once and evaluates erf or the sigmoid once.
#include <algorithm>
#include <map>

#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/leaky_relu.h"

namespace mxlite::graph {
namespace {

class GeluJoiner {
 public:
  explicit GeluJoiner(const Graph& graph)
      : graph_(graph), rewrite_(graph), partner_(graph.nodes.size(), -1) {}

  Graph run() {
    find_pairs();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const int32_t other = partner_[i];
      if (other < 0)
        rewrite_.keep(id);
      else if (other > id)
        is_gelu(id) ? write(id, other) : write(other, id);
    }
    return rewrite_.finish();
  }

 private:
  bool is_op(int32_t id, const char* name) const {
    const Node& n = graph_.node(id);
    if (n.kind != NodeKind::kOp || n.op()->name != name || !n.post_ops.empty()) return false;
    const LeakyReLUType type = type_of(id);
    return type == LeakyReLUType::kGelu || type == LeakyReLUType::kGeluTanh;
  }
  bool is_gelu(int32_t id) const { return is_op(id, "LeakyReLU"); }
  LeakyReLUType type_of(int32_t id) const {
    return params_of<LeakyReLUParams>(graph_.node(id)).act_type;
  }

  void find_pairs() {
    std::map<std::pair<int32_t, int32_t>, int32_t> by_data;  // GELU node of each value
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const auto id = static_cast<int32_t>(i); is_gelu(id)) {
        const ValueId data = graph_.node(id).inputs[0];
        by_data.try_emplace({data.node, data.output}, id);
      }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!is_op(id, "_leaky_relu_backward")) continue;
      const ValueId grad = graph_.node(id).inputs[0], data = graph_.node(id).inputs[1];
      const auto found = by_data.find({data.node, data.output});
      if (found == by_data.end()) continue;
      const int32_t gelu = found->second;
      // The pair is computed at the position of its first node, so the gradient must exist at that
      // position.
      if (type_of(gelu) != type_of(id) || grad.node >= std::min(gelu, id) ||
          partner_[static_cast<size_t>(gelu)] >= 0)
        continue;
      partner_[static_cast<size_t>(gelu)] = id;
      partner_[i] = gelu;
    }
  }

  void write(int32_t gelu, int32_t gradient) {
    const Node& n = graph_.node(gradient);
    const ValueId made = rewrite_.graph().add_op(ops().get("_gelu_and_backward"), n.params(),
                                                 rewrite_.map(n.inputs), n.name());
    rewrite_.replace({gradient, 0}, made);
    rewrite_.replace({gelu, 0}, {made.node, 1});
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<int32_t> partner_;  // for each node: the other node of its pair, or -1
};

}  // namespace

Graph join_gelu(const Graph& graph, const PassContext& context) {
  if (context.small || context.device.type != DeviceType::kCPU) return graph;
  return GeluJoiner(graph).run();
}

}  // namespace mxlite::graph
