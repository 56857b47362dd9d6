// For inference, folds a BatchNorm after a linear layer into the layer's weights. The folded
// weights depend on parameters only, so they are recomputed only after a parameter has changed.
#include <optional>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/deconvolution.h"
#include "cpp/ops/nn/fully_connected.h"

namespace mxlite::graph {
namespace {

// Properties of a linear layer that the fold uses.
struct Layer {
  int channel_axis = 1;  // channel axis of the layer's output
  int weight_axis = 0;   // axis of the weight for output channels
  bool no_bias = false;
  ParamsRef with_bias;
};

template <class P>
ParamsRef biased(const P& p) {
  auto copy = std::make_shared<P>(p);
  copy->no_bias = false;
  return copy;
}

std::optional<Layer> describe(const Graph& graph, const Node& n) {
  const int ndim = n.outputs[0].shape.ndim();
  if (n.op()->name == "Convolution") {
    const auto& p = params_of<ConvolutionParams>(n);
    return Layer{p.channels_last() ? ndim - 1 : 1, 0, p.no_bias, biased(p)};
  }
  if (n.op()->name == "Deconvolution") {
    const auto& p = params_of<DeconvolutionParams>(n);
    if (p.num_group != 1 || p.channels_last()) return std::nullopt;
    return Layer{1, 1, p.no_bias, biased(p)};
  }
  if (n.op()->name == "FullyConnected" && graph.spec(n.inputs[1]).shape.ndim() == 2) {
    const auto& p = params_of<FullyConnectedParams>(n);
    return Layer{ndim - 1, 0, p.no_bias, biased(p)};
  }
  return std::nullopt;
}

class Folder {
 public:
  explicit Folder(const Graph& graph)
      : graph_(graph),
        rewrite_(graph),
        out_(rewrite_.graph()),
        uses_(count_uses(graph)),
        is_static_(find_static_nodes(graph)) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!try_fold(id)) rewrite_.keep(id);
    }
    return rewrite_.finish();  // remove-dead drops the old layers later
  }

 private:
  bool all_static(std::span<const ValueId> values) const {
    for (ValueId v : values)
      if (!is_static_[static_cast<size_t>(v.node)]) return false;
    return true;
  }

  bool try_fold(int32_t id) {
    const Node& norm = graph_.node(id);
    if (norm.kind != NodeKind::kOp || norm.op()->name != "BatchNorm" || graph_.training)
      return false;
    const auto& used = uses_[static_cast<size_t>(id)];
    if (used[1] || used[2] || !norm.post_ops.empty()) return false;
    const ValueId data = norm.inputs[0];
    const Node& linear = graph_.node(data);
    if (linear.kind != NodeKind::kOp || !linear.post_ops.empty() ||
        uses_[static_cast<size_t>(data.node)][0] != 1)
      return false;
    const std::optional<Layer> layer = describe(graph_, linear);
    const auto& p = params_of<BatchNormParams>(norm);
    const int axis = p.axis < 0 ? p.axis + norm.outputs[0].shape.ndim() : p.axis;
    if (!layer || axis != layer->channel_axis) return false;
    if (!all_static(std::span(norm.inputs).subspan(1)) ||
        !all_static(std::span(linear.inputs).subspan(1)))
      return false;
    fold(id, norm, p, linear, *layer);
    return true;
  }

  ValueId op(const char* name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return out_.add_op(name, std::move(inputs), attrs, prefix_.with(str('_', name)));
  }
  ValueId cast(ValueId v, DType dtype) {
    return out_.spec(v).dtype == dtype ? v : op("Cast", {v}, {{"dtype", dtype}});
  }
  ValueId compute(ValueId old_value) {
    const ValueId v = rewrite_.map(old_value);
    return is_half(out_.spec(v).dtype) ? cast(v, DType::kFloat32) : v;
  }

  void fold(int32_t id, const Node& norm, const BatchNormParams& p, const Node& linear,
            const Layer& layer) {
    prefix_ = norm.name().with("_folded");
    const ValueId old_weight = rewrite_.map(linear.inputs[1]);
    const DType dtype = out_.spec(old_weight).dtype;
    const Shape weight_shape = out_.spec(old_weight).shape;

    const ValueId beta = compute(norm.inputs[2]), mean = compute(norm.inputs[3]);
    ValueId scale =
        op("rsqrt", {op("_plus_scalar", {compute(norm.inputs[4])}, {{"scalar", p.eps}})});
    if (!p.fix_gamma) scale = op("broadcast_mul", {compute(norm.inputs[1]), scale});

    Shape broadcast = Shape::filled(weight_shape.ndim(), 1);
    broadcast[layer.weight_axis] = weight_shape[layer.weight_axis];
    const ValueId factor = op("_reshape_to", {scale}, {{"shape", broadcast}});
    const ValueId weight = cast(op("broadcast_mul", {compute(linear.inputs[1]), factor}), dtype);

    ValueId shift = op("broadcast_sub", {beta, op("broadcast_mul", {mean, scale})});
    if (!layer.no_bias)
      shift = op("broadcast_add", {op("broadcast_mul", {compute(linear.inputs[2]), scale}), shift});

    const ValueId result =
        out_.add_op(*linear.op(), layer.with_bias,
                    {rewrite_.map(linear.inputs[0]), weight, cast(shift, dtype)}, linear.name());
    rewrite_.replace({id, 0}, result);
    // The other outputs have no readers, but rewrite_ needs a value for each output.
    for (int32_t k = 1; k < 3; ++k) rewrite_.replace({id, k}, result);
  }

  const Graph& graph_;
  Rewrite rewrite_;
  Graph& out_;
  std::vector<std::vector<int>> uses_;
  std::vector<uint8_t> is_static_;
  NodeName prefix_;
};

}  // namespace

Graph fold_batch_norm(const Graph& graph, const PassContext&) { return Folder(graph).run(); }

}  // namespace mxlite::graph
