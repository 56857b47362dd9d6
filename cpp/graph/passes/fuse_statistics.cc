// Joins a convolution and the BatchNorm of its result into one operator before a recorded graph is
// differentiated, on CUDA with float16. cuDNN then sums the channels while it stores them
// (operation GenStats), and the rest of BatchNorm reads the result once instead of twice. Runs
// after fuse-norm. The gradients are those of the separate operators.
#include <algorithm>

#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/convolution_batch_norm.h"

namespace mxlite::graph {
namespace {

// The cuDNN engine needs a number of channels that fills multiples of 16 bytes.
constexpr int64_t kStatisticsChannelsAtOnce = 8;

class StatisticsFuser {
 public:
  explicit StatisticsFuser(const Graph& graph)
      : graph_(graph), rewrite_(graph), uses_(count_uses(graph)), joined_(graph.nodes.size()) {
    for (const Node& n : graph.nodes)
      for (size_t k = 0; n.kind == NodeKind::kOp && k < n.inputs.size(); ++k)
        if (n.op()->mutates(static_cast<int>(k), graph.training)) written_.push_back(n.inputs[k]);
  }

  Graph run() {
    std::vector<uint8_t> ends(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int32_t convolution = convolution_of(graph_.nodes[i]);
      if (convolution < 0) continue;
      ends[i] = 1;
      joined_[static_cast<size_t>(convolution)] = 1;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (joined_[i]) continue;
      if (ends[i])
        write(static_cast<int32_t>(i));
      else
        rewrite_.keep(static_cast<int32_t>(i));
    }
    return rewrite_.finish();
  }

 private:
  // Returns the convolution that `norm` normalizes, or -1 if the two cannot be joined.
  int32_t convolution_of(const Node& norm) const {
    if (norm.kind != NodeKind::kOp || !norm.post_ops.empty()) return -1;
    const std::string& op = norm.op()->name;
    if (op != "BatchNorm" && op != "_batch_norm_relu" && op != "_batch_norm_add_relu_bits")
      return -1;
    const ValueId data = norm.inputs[0];
    const Node& n = graph_.node(data);
    if (n.kind != NodeKind::kOp || n.op()->name != "Convolution" || !n.post_ops.empty() ||
        uses_[static_cast<size_t>(data.node)][0] != 1)
      return -1;
    const auto& p = params_of<BatchNormParams>(norm);
    const int last = graph_.spec(data).shape.ndim() - 1;
    if (p.use_global_stats || (p.axis != last && p.axis != -1)) return -1;
    return takes(n) ? data.node : -1;
  }

  bool takes(const Node& convolution) const {
    const auto& p = params_of<ConvolutionParams>(convolution);
    const TensorSpec& data = graph_.spec(convolution.inputs[0]);
    if (data.dtype != DType::kFloat16 || data.shape.ndim() != 4 || !p.channels_last() ||
        !p.no_bias || p.num_group != 1)
      return false;
    // The convolution runs later than before, so no node may write its inputs in between.
    for (const ValueId v : convolution.inputs)
      if (std::find(written_.begin(), written_.end(), v) != written_.end()) return false;
    return data.shape[3] % kStatisticsChannelsAtOnce == 0 &&
           p.num_filter % kStatisticsChannelsAtOnce == 0 && convolution.outputs[0].shape.size() > 0;
  }

  void write(int32_t id) {
    const Node& norm = graph_.node(id);
    const Node& convolution = graph_.node(norm.inputs[0]);
    const auto& p = params_of<BatchNormParams>(norm);
    auto params = std::make_shared<ConvolutionBatchNormParams>();
    static_cast<ConvolutionParams&>(*params) = params_of<ConvolutionParams>(convolution);
    params->eps = p.eps;
    params->momentum = p.momentum;
    params->fix_gamma = p.fix_gamma;
    params->added = norm.op()->name == "_batch_norm_add_relu_bits";
    params->relu = params->added || norm.op()->name == "_batch_norm_relu";
    std::vector<ValueId> inputs = rewrite_.map(convolution.inputs);
    for (size_t k = 1; k < norm.inputs.size(); ++k) inputs.push_back(rewrite_.map(norm.inputs[k]));
    const ValueId made =
        rewrite_.graph().add_op(ops().get("_convolution_batch_norm"), ParamsRef(std::move(params)),
                                std::move(inputs), convolution.name());
    for (int32_t k = 0; k < 3; ++k) rewrite_.replace({id, k}, {made.node, k});
  }

  const Graph& graph_;
  Rewrite rewrite_;
  const std::vector<std::vector<int>> uses_;
  std::vector<ValueId> written_;
  std::vector<uint8_t> joined_;  // for each node: convolution that is joined into a later node
};

}  // namespace

Graph fuse_statistics(const Graph& graph, const PassContext& context) {
  if (context.small || !graph.training || context.device.type != DeviceType::kCUDA) return graph;
  return StatisticsFuser(graph).run();
}

}  // namespace mxlite::graph
