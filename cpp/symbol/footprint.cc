#include "cpp/symbol/footprint.h"

#include <algorithm>

namespace mxlite::symbol {
namespace {

using graph::Graph;
using graph::ValueId;

bool passes_gradient(const Call& call) {
  return call.host() || call.op->gradient || call.op->storage.chooses_storage;
}

// Returns for each node whether a gradient flows through it to a variable of `differentiated`.
std::vector<uint8_t> differentiated_nodes(const Graph& graph,
                                          const std::set<std::string>& differentiated) {
  std::vector<uint8_t> needs(graph.nodes.size()), reached(graph.nodes.size());
  const auto at = [](int32_t node) { return static_cast<size_t>(node); };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    needs[i] = node.op() ? passes_gradient(*node.call) &&
                               std::ranges::any_of(
                                   node.inputs, [&](ValueId v) { return needs[at(v.node)] != 0; })
                         : differentiated.contains(node.name().text);
  }
  for (const ValueId output : graph.outputs) reached[at(output.node)] = needs[at(output.node)];
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (reached[i])
      for (const ValueId v : graph.nodes[i].inputs) reached[at(v.node)] |= needs[at(v.node)];
  return reached;
}

class Footprint {
 public:
  Footprint(const Inference& inference, const std::set<std::string>& differentiated)
      : graph_(inference.listing().graph),
        slots_(graph_),
        sizes_(slots_.size()),
        active_(differentiated_nodes(graph_, differentiated)) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op())
        for (size_t k = 0; k < graph_.nodes[i].outputs.size(); ++k)
          sizes_[slot(i, k)] = size_of(inference, *inference.nodes()[i], static_cast<int>(k));
  }

  size_t bytes() const {
    std::vector<size_t> last(sizes_.size());   // for each slot: the last node that reads it, or 0
    std::vector<uint8_t> kept(sizes_.size());  // for each slot: whether it lives until the end
    for (const ValueId output : graph_.outputs) kept[slots_.of(output)] = 1;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const graph::Node& node = graph_.nodes[i];
      for (const ValueId v : node.inputs) last[slots_.of(v)] = i;
      if (!node.op() || !active_[i]) continue;
      for (const ValueId v : node.inputs) kept[slots_.of(v)] = 1;
      for (size_t k = 0; k < node.outputs.size(); ++k) kept[slot(i, k)] = 1;
    }
    size_t alive = 0, peak = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const graph::Node& node = graph_.nodes[i];
      if (!node.op()) continue;
      alive += size_of_outputs(i);
      peak = std::max(peak, alive);
      std::set<size_t> ended;
      for (const ValueId v : node.inputs)
        if (last[slots_.of(v)] == i) ended.insert(slots_.of(v));
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (last[slot(i, k)] == 0) ended.insert(slot(i, k));
      for (const size_t value : ended)
        if (!kept[value]) alive -= sizes_[value];
    }
    return std::max(peak, alive + peak_of_gradients());
  }

 private:
  size_t slot(size_t node, size_t output) const {
    return slots_.of({static_cast<int32_t>(node), static_cast<int32_t>(output)});
  }

  static size_t size_of(const Inference& inference, const Node& node, int output) {
    const Shape& shape = inference.shape(node, output);
    if (!shape.is_known()) return 0;
    return TensorSpec{shape, inference.type(node, output).value_or(DType::kFloat32)}.bytes();
  }

  size_t size_of_outputs(size_t node) const {
    size_t bytes = 0;
    for (size_t k = 0; k < graph_.nodes[node].outputs.size(); ++k) bytes += sizes_[slot(node, k)];
    return bytes;
  }

  size_t peak_of_gradients() const {
    size_t alive = 0, peak = 0;
    std::vector<uint8_t> begun(graph_.nodes.size());
    const auto begin = [&](size_t node) {
      if (!active_[node] || begun[node]) return;
      begun[node] = 1;
      alive += size_of_outputs(node);
    };
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (!graph_.nodes[i].op() || !active_[i]) continue;
      begin(i);
      for (const ValueId v : graph_.nodes[i].inputs) begin(static_cast<size_t>(v.node));
      peak = std::max(peak, alive);
      alive -= size_of_outputs(i);
    }
    return peak;
  }

  const Graph& graph_;
  const graph::ValueSlots slots_;
  std::vector<size_t> sizes_;  // indexed by slot; 0 for variables
  const std::vector<uint8_t> active_;
};

}  // namespace

size_t bytes_of_results(const Inference& inference, const std::set<std::string>& differentiated) {
  return Footprint(inference, differentiated).bytes();
}

}  // namespace mxlite::symbol
