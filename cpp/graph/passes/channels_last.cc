// Stores images channels-last between convolutions on CUDA with float16 and bfloat16, because
// tensor cores read the channels of a pixel in words of 8 or 16 bytes. Runs before gradients are
// built, so that backward operators are also channels-last. Transposes a value at most once in each
// direction. Pads images with few channels; see Note [Images of few channels].
#include <algorithm>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/tensor/concat.h"

namespace mxlite::graph {
namespace {

constexpr ValueId kNone{};

Shape permuted(const Shape& shape, const Shape& axes) {
  Shape result;
  for (int64_t axis : axes) result.push_back(shape[static_cast<int>(axis)]);
  return result;
}

// Returns whether the transpose keeps the order of elements in memory.
bool moves_nothing(const Shape& shape, const Shape& axes) {
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (shape[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Note [Images of few channels]
// Tensor cores read the channels of a pixel in words of 8 or 16 bytes, so a convolution of 3
// channels uses a slow kernel. An input image is transposed anyway. If it has fewer than 8
// channels, the image and the weight are therefore padded to the next multiple of 4. The padding
// consists of channels of zeros, which do not change sums. The image and the weight have one Pad
// each. Thus the padded weight depends only on its parameter, BatchNorm can be folded into it, and
// the prologue computes it. The gradient of Pad is a slice. Grouped convolutions, and convolutions
// whose data is already channels-last, are not padded.
constexpr int64_t kChannelsAtOnce = 4, kFewChannels = 8;

class Turner {
 public:
  explicit Turner(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        out_(rewrite_.graph()),
        last_(graph.nodes.size()),
        padded_(graph.nodes.size()),
        turned_(graph.nodes.size()) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const Node& n = graph_.node(id);
      last_[i].assign(n.outputs.size(), kNone);
      padded_[i].assign(n.outputs.size(), kNone);
      plain_.emplace_back(n.outputs.size(), 1);
      if (n.kind == NodeKind::kOp && n.post_ops.empty() && turn(id, n)) continue;
      for (ValueId v : n.inputs) make_plain(v);
      rewrite_.keep(id);
    }
    for (ValueId v : graph_.outputs) make_plain(v);
    return rewrite_.finish();
  }

 private:
  bool turn(int32_t id, const Node& n) {
    if (n.outputs[0].shape.ndim() != 4) return false;
    if (n.op()->name == "Convolution") return turn_convolution(id, n);
    if (!std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return is_last(v); }))
      return false;
    if (n.op()->name == "Pooling") return turn_pooling(id, n);
    if (n.op()->name == "BatchNorm") return turn_batch_norm(id, n);
    if (n.op()->name == "Concat") return turn_concat(id, n);
    return turn_pointwise(id, n);
  }

  bool turn_convolution(int32_t id, const Node& n) {
    const auto& p = params_of<ConvolutionParams>(n);
    if (p.channels_last() || !is_half(n.outputs[0].dtype)) return false;
    auto params = std::make_shared<ConvolutionParams>(p);
    params->layout = SpatialLayout::kNHWC;
    const bool pads = has_few_channels(n, p);
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < 2; ++k) inputs.push_back(pads ? padded(n.inputs[k]) : last(n.inputs[k]));
    for (size_t k = 2; k < n.inputs.size(); ++k) inputs.push_back(plain(n.inputs[k]));
    return replace(id, n, std::move(params), std::move(inputs));
  }

  bool has_few_channels(const Node& n, const ConvolutionParams& p) const {
    const int64_t channels = graph_.spec(n.inputs[0]).shape[1];
    return p.num_group == 1 && channels < kFewChannels && channels % kChannelsAtOnce != 0 &&
           !turned_[static_cast<size_t>(n.inputs[0].node)];
  }

  bool turn_pooling(int32_t id, const Node& n) {
    auto params = std::make_shared<PoolingParams>(params_of<PoolingParams>(n));
    if (params->channels_last()) return false;
    params->layout = SpatialLayout::kNHWC;
    return replace(id, n, std::move(params), {last(n.inputs[0])});
  }

  bool turn_batch_norm(int32_t id, const Node& n) {
    auto params = std::make_shared<BatchNormParams>(params_of<BatchNormParams>(n));
    if (params->axis != 1) return false;
    params->axis = 3;
    std::vector<ValueId> inputs{last(n.inputs[0])};
    for (size_t k = 1; k < n.inputs.size(); ++k) inputs.push_back(plain(n.inputs[k]));
    return replace(id, n, std::move(params), std::move(inputs));
  }

  bool turn_concat(int32_t id, const Node& n) {
    constexpr int kPlaces[] = {0, 3, 1, 2};  // positions of batch, channels, height, width
    const int dim = params_of<ConcatParams>(n).dim;
    if (dim < -4 || dim > 3) return false;
    auto params = std::make_shared<ConcatParams>();
    params->dim = kPlaces[dim < 0 ? dim + 4 : dim];
    return replace(id, n, std::move(params), all_last(n));
  }

  // Handles element-wise operators, including broadcasting operators, because they do not depend on
  // the order of axes.
  bool turn_pointwise(int32_t id, const Node& n) {
    if (!n.op()->elementwise || is_random(n) || mutates(graph_, n) || n.outputs.size() != 1)
      return false;
    for (ValueId v : n.inputs)
      if (graph_.spec(v).shape.ndim() != 4) return false;
    return replace(id, n, n.params(), all_last(n));
  }

  // Adds a node whose first output is channels-last. The layout of the node's other outputs does
  // not change.
  bool replace(int32_t id, const Node& n, ParamsRef params, std::vector<ValueId> inputs) {
    const ValueId first = out_.add_op(*n.op(), std::move(params), std::move(inputs), n.name());
    last_[static_cast<size_t>(id)][0] = first;
    turned_[static_cast<size_t>(id)] = 1;
    plain_[static_cast<size_t>(id)][0] = 0;
    for (int32_t k = 1; k < static_cast<int32_t>(n.outputs.size()); ++k)
      rewrite_.replace({id, k}, {first.node, k});
    return true;
  }

  std::vector<ValueId> all_last(const Node& n) {
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(last(v));
    return inputs;
  }

  ValueId& last_slot(ValueId v) {
    return last_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }
  bool is_last(ValueId v) { return !(last_slot(v) == kNone); }
  ValueId last(ValueId v) {
    ValueId& slot = last_slot(v);
    if (slot == kNone) slot = transpose(rewrite_.map(v), Shape{0, 2, 3, 1}, "_channels_last");
    return slot;
  }
  // Returns the channels-last form of a value, padded with channels of zeros.
  ValueId padded(ValueId v) {
    ValueId& slot = padded_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
    if (!(slot == kNone)) return slot;
    const ValueId from = last(v);
    const int64_t extra = kChannelsAtOnce - out_.spec(from).shape[3] % kChannelsAtOnce;
    slot = out_.add_op(
        "Pad", {from},
        {{"mode", std::string("constant")}, {"pad_width", Shape{0, 0, 0, 0, 0, 0, 0, extra}}},
        graph_.node(v).name().with("_padded"));
    return slot;
  }
  void make_plain(ValueId v) {
    uint8_t& is_plain = plain_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
    if (is_plain) return;
    is_plain = 1;
    rewrite_.replace(v, transpose(last_slot(v), Shape{0, 3, 1, 2}, "_channels_first"));
  }
  ValueId plain(ValueId v) {
    make_plain(v);
    return rewrite_.map(v);
  }

  ValueId transpose(ValueId v, const Shape& axes, const char* suffix) {
    const Shape shape = out_.spec(v).shape;
    const NodeName name = out_.node(v).name().with(suffix);
    if (moves_nothing(shape, axes))
      return out_.add_op("_reshape_to", {v}, {{"shape", permuted(shape, axes)}}, name);
    return out_.add_op("transpose", {v}, {{"axes", axes}}, name);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  Graph& out_;
  std::vector<std::vector<ValueId>> last_;  // for each old value: the value in channels-last form,
                                            // or kNone
  std::vector<std::vector<ValueId>> padded_;  // for each old value: the value in last_ with padded
                                              // channels, or kNone
  std::vector<std::vector<uint8_t>> plain_;   // for each old value: whether the value exists in its
                                              // old form
  std::vector<uint8_t> turned_;  // for each old node: whether output 0 is computed channels-last
};

bool has_half_convolution(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    return n.kind == NodeKind::kOp && n.op()->name == "Convolution" &&
           n.outputs[0].shape.ndim() == 4 && is_half(n.outputs[0].dtype) &&
           !params_of<ConvolutionParams>(n).channels_last();
  });
}

}  // namespace

Graph channels_last(const Graph& graph, const PassContext& context) {
  if (context.device.type != DeviceType::kCUDA || !has_half_convolution(graph)) return graph;
  return Turner(graph).run();
}

}  // namespace mxlite::graph
