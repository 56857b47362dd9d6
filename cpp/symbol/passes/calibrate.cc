// Sets the ranges of a quantized network. Layers with a known range then store int8 directly.
#include <algorithm>
#include <map>
#include <optional>

#include "cpp/graph/rewrite.h"
#include "cpp/ops/quantization/fused.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/passes/added_calls.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {
namespace {

using graph::ValueId;
using Range = std::pair<float, float>;

bool is_op(const graph::Node& node, std::string_view name) {
  return node.op() && node.op()->name == name;
}
bool is_fused(const graph::Node& node) {
  return is_op(node, "_sg_mkldnn_conv") || is_op(node, "_sg_mkldnn_fully_connected");
}

class Calibrator {
 public:
  Calibrator(const graph::Graph& graph, const Quantization& how)
      : old_(graph), how_(how), rewrite_(graph), uses_(graph::count_uses(graph)) {
    quantizer_.assign(graph.nodes.size(), -1);
    sum_of_.assign(graph.nodes.size(), -1);
    for (int32_t id = 0; id < count(); ++id) {
      const graph::Node& node = graph.node(id);
      if (is_op(node, "_contrib_quantize_v2") && range_of(node) &&
          is_fused(graph.node(node.inputs[0])))
        quantizer_[static_cast<size_t>(node.inputs[0].node)] = id;
      if (is_op(node, "_contrib_requantize") && range_of(node)) {
        const ValueId sum = node.inputs[0];
        if (is_op(graph.node(sum), "_contrib_quantized_elemwise_add"))
          sum_of_[static_cast<size_t>(sum.node)] = id;
      }
    }
  }

  graph::Graph run() {
    for (int32_t id = 0; id < count(); ++id) {
      const graph::Node& node = old_.node(id);
      if (const int32_t quantizer = quantizer_[static_cast<size_t>(id)]; quantizer >= 0)
        add_fused(id, quantizer);
      else if (const int32_t ranged = sum_of_[static_cast<size_t>(id)]; ranged >= 0)
        replace_outputs(ranged, add_ranged(id, *range_of(old_.node(ranged))));
      else if (is_replaced_.contains(id))
        continue;
      else if (const auto range = range_of(node))
        replace_outputs(id, add_ranged(id, *range));
      else
        rewrite_.keep(id);
      note_range(id);
    }
    return rewrite_.finish();
  }

 private:
  int32_t count() const { return static_cast<int32_t>(old_.nodes.size()); }

  std::optional<Range> range_of(const graph::Node& node) const {
    if (!node.op()) return std::nullopt;
    const auto name = node.call->attrs.find(kCalibrationName);
    if (name == node.call->attrs.end()) return std::nullopt;
    const auto found = how_.ranges.find(name->second);
    if (found == how_.ranges.end()) return std::nullopt;
    return found->second;
  }

  ValueId add(const graph::Node& like, Attributes attrs, std::vector<ValueId> inputs) {
    attrs.erase(kCalibrationName);
    return add_call(rewrite_.graph(), named_call(like.call->file_op, std::move(attrs), like.name()),
                    std::move(inputs));
  }

  static Attributes with_range(const graph::Node& node, const Range& range) {
    Attributes attrs = node.call->attrs;
    attrs["min_calib_range"] = number_text(range.first);
    attrs["max_calib_range"] = number_text(range.second);
    return attrs;
  }

  // Copies node `id` and gives the copy a range.
  ValueId add_ranged(int32_t id, const Range& range) {
    const graph::Node& node = old_.node(id);
    return add(node, with_range(node, range), rewrite_.map(node.inputs));
  }

  // The outputs of the new node that produces `v` replace the outputs of old node `id`.
  void replace_outputs(int32_t id, ValueId v) {
    is_replaced_.insert(id);
    for (int32_t i = 0; i < static_cast<int32_t>(old_.node(id).outputs.size()); ++i)
      rewrite_.replace({id, i}, {v.node, i});
  }

  // Replaces a fused layer and the node that quantizes its result by one layer.
  void add_fused(int32_t id, int32_t quantizer) {
    const graph::Node& node = old_.node(id);
    const Range range = *range_of(old_.node(quantizer));
    std::vector<ValueId> inputs = node.inputs;
    Attributes attrs = with_range(node, range);
    if (attrs.contains("with_sum")) {
      const graph::Node& dequantizer = old_.node(inputs.back());
      const auto known = is_op(dequantizer, "_contrib_dequantize")
                             ? ranges_.find(dequantizer.inputs[0].node)
                             : ranges_.end();
      if (known == ranges_.end()) {  // the sum reads float32, so the layer writes float32
        rewrite_.keep(id);
        return;
      }
      inputs.back() = dequantizer.inputs[0];
      attrs["sum_range"] =
          number_text(quantization::largest_magnitude(known->second.first, known->second.second));
    }
    const ValueId v = add(node, std::move(attrs), rewrite_.map(inputs));
    replace_outputs(quantizer, v);
    rewrite_.replace({id, 0}, v);
    ranges_[quantizer] = range;
    if (uses_[static_cast<size_t>(id)][0] > 1) {
      auto call = named_call("_contrib_dequantize", {}, node.name().with("_dequantize"));
      rewrite_.replace({id, 0},
                       add_call(rewrite_.graph(), std::move(call), {v, {v.node, 1}, {v.node, 2}}));
    }
  }

  // Records the range of the node's int8 result if it is known.
  void note_range(int32_t id) {
    const graph::Node& node = old_.node(id);
    if (const auto own = range_of(node)) ranges_[id] = *own;
    if (const int32_t ranged = sum_of_[static_cast<size_t>(id)]; ranged >= 0)
      ranges_[ranged] = *range_of(old_.node(ranged));
    const auto inherit = [&](size_t inputs) {
      Range widest{0, 0};
      for (size_t i = 0; i < inputs; ++i) {
        const auto found = ranges_.find(node.inputs[i].node);
        if (found == ranges_.end()) return;
        widest = {std::min(widest.first, found->second.first),
                  std::max(widest.second, found->second.second)};
      }
      ranges_[id] = widest;
    };
    for (const char* op :
         {"_contrib_quantized_pooling", "_contrib_quantized_flatten", "_contrib_quantized_act"})
      if (is_op(node, op)) inherit(1);
    if (is_op(node, "_contrib_quantized_concat")) inherit(node.inputs.size() / 3);
  }

  const graph::Graph& old_;
  const Quantization& how_;
  graph::Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::vector<int32_t> quantizer_;  // for each fused layer: node that quantizes its result, or -1
  std::vector<int32_t> sum_of_;     // for each sum: the node that requantizes it, or -1
  std::set<int32_t> is_replaced_;
  std::map<int32_t, Range> ranges_;  // for each node: the range of its int8 result
};

}  // namespace

graph::Graph calibrate(const graph::Graph& graph, const PassOptions& options) {
  MX_CHECK(options.quantization, "calibrate: quantization must be given, got None");
  return Calibrator(graph, *options.quantization).run();
}

}  // namespace mxlite::symbol
