// The output of a residual block has two readers. Their gradients are added before BatchNorm's
// gradient reads the sum. On CUDA, this pass makes BatchNorm's gradient read both gradients and add
// them, so that the sum is neither written nor read again.
#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/batch_norm.h"

namespace mxlite::graph {
namespace {

constexpr const char* kGradient = "_batch_norm_add_relu_bits_backward";

class GradientAdder {
 public:
  explicit GradientAdder(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        uses_(count_uses(graph)),
        reads_both_(graph.nodes.size()),
        gone_(graph.nodes.size()) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) find(i);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (reads_both_[i])
        write(id);
      else if (!gone_[i])
        rewrite_.keep(id);
    }
    return rewrite_.finish();
  }

 private:
  void find(size_t i) {
    const Node& n = graph_.nodes[i];
    if (n.kind != NodeKind::kOp || n.op()->name != kGradient ||
        params_of<BatchNormGradParams>(n).two_grads)
      return;
    const ValueId grad = n.inputs[0];
    const Node& sum = graph_.node(grad);
    if (!is_addition(sum) || !sum.post_ops.empty() ||
        uses_[static_cast<size_t>(grad.node)][0] != 1 ||
        graph_.spec(sum.inputs[0]) != graph_.spec(sum.inputs[1]))
      return;
    reads_both_[i] = 1;
    gone_[static_cast<size_t>(grad.node)] = 1;
  }

  void write(int32_t id) {
    const Node& n = graph_.node(id);
    const Node& sum = graph_.node(n.inputs[0]);
    auto params = std::make_shared<BatchNormGradParams>(params_of<BatchNormGradParams>(n));
    params->two_grads = true;
    std::vector<ValueId> inputs = n.inputs;
    inputs[0] = sum.inputs[0];
    inputs.push_back(sum.inputs[1]);
    const ValueId made =
        rewrite_.graph().add_op(*n.op(), std::move(params), rewrite_.map(inputs), n.name());
    for (int32_t k = 0; k < static_cast<int32_t>(n.outputs.size()); ++k)
      rewrite_.replace({id, k}, {made.node, k});
  }

  const Graph& graph_;
  Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<uint8_t> reads_both_;  // for each node: whether it is a gradient that adds operands
  std::vector<uint8_t> gone_;        // for each node: whether it is an addition done in a gradient
};

}  // namespace

Graph add_norm_gradients(const Graph& graph, const PassContext&) {
  return GradientAdder(graph).run();
}

}  // namespace mxlite::graph
