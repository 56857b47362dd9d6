#include "cpp/graph/split.h"

#include <algorithm>

namespace mxlite::graph {
namespace {

// Copies nodes [begin, end) and the leaves that they use.
class Extract {
 public:
  Extract(const Graph& whole, size_t begin, size_t end) : whole_(whole), begin_(begin), end_(end) {
    graph_.name = whole.name;
    graph_.training = whole.training;
  }

  Part run(const std::vector<ValueId>& wanted) {
    for (size_t i = begin_; i < end_; ++i) {
      const Node& n = whole_.nodes[i];
      if (n.kind != NodeKind::kOp) continue;
      Node copy = n;
      for (ValueId& v : copy.inputs) v = here(v);
      graph_.nodes.push_back(std::move(copy));
      nodes_.emplace_back(static_cast<int32_t>(i), last());
    }
    for (ValueId v : wanted) graph_.outputs.push_back(here(v));
    part_.outputs = wanted;
    part_.graph = cached_graph_of(std::move(graph_), /*is_part=*/true);
    return std::move(part_);
  }

 private:
  int32_t last() const { return static_cast<int32_t>(graph_.nodes.size() - 1); }

  ValueId here(ValueId v) {
    const Node& n = whole_.node(v);
    const bool inside = v.node >= static_cast<int32_t>(begin_) &&
                        v.node < static_cast<int32_t>(end_) && n.kind == NodeKind::kOp;
    if (inside) {
      const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), std::pair{v.node, int32_t{0}});
      return {at->second, v.output};
    }
    for (const auto& [outer, own] : leaves_)
      if (outer == v) return {own, 0};
    Node leaf;
    const bool is_parameter = n.kind == NodeKind::kParameter;
    leaf.kind = is_parameter ? NodeKind::kParameter : NodeKind::kInput;
    leaf.outputs = {whole_.spec(v)};
    auto& list = is_parameter ? graph_.parameters : graph_.inputs;
    leaf.index = static_cast<int>(list.size());
    leaf.name = n.name;
    graph_.nodes.push_back(std::move(leaf));
    list.push_back(last());
    if (is_parameter)
      part_.parameters.push_back(n.index);
    else
      part_.inputs.push_back(v);
    leaves_.emplace_back(v, last());
    return {last(), 0};
  }

  const Graph& whole_;
  const size_t begin_, end_;
  Graph graph_;
  Part part_;
  std::vector<std::pair<int32_t, int32_t>> nodes_;  // node of the whole graph to node here, in
                                                    // order
  std::vector<std::pair<ValueId, int32_t>> leaves_;
};

// Collects values of nodes [begin, end) that later nodes or the graph's outputs use.
std::vector<ValueId> values_used_later(const Graph& g, size_t begin, size_t end) {
  std::vector<ValueId> found;
  const auto look_at = [&](ValueId v) {
    const auto node = static_cast<size_t>(v.node);
    if (node < begin || node >= end || g.node(v).kind != NodeKind::kOp) return;
    if (std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
  };
  for (size_t i = end; i < g.nodes.size(); ++i)
    for (ValueId v : g.nodes[i].inputs) look_at(v);
  for (ValueId v : g.outputs) look_at(v);
  return found;
}

// Returns whether a node writes its inputs, so that the part must run even without outputs.
bool has_effect(const Graph& g, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    for (size_t k = 0; g.nodes[i].kind == NodeKind::kOp && k < g.nodes[i].inputs.size(); ++k)
      if (g.nodes[i].op->mutates(static_cast<int>(k), g.training)) return true;
  return false;
}

}  // namespace

bool has_host_op(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return host_op(n) != nullptr; });
}

std::shared_ptr<const Split> split_at_host_ops(Graph graph) {
  auto split = std::make_shared<Split>();
  split->whole = std::move(graph);
  const Graph& whole = split->whole;
  const auto add_run = [&](size_t begin, size_t end) {
    const std::vector<ValueId> wanted = values_used_later(whole, begin, end);
    if (!wanted.empty() || has_effect(whole, begin, end))
      split->parts.push_back(Extract(whole, begin, end).run(wanted));
  };
  size_t begin = 0;
  for (size_t i = 0; i < whole.nodes.size(); ++i) {
    const HostOp* host = host_op(whole.nodes[i]);
    if (!host) continue;
    add_run(begin, i);
    begin = i + 1;
    Part part;
    part.host = host;
    part.inputs = whole.nodes[i].inputs;
    part.name = whole.nodes[i].name;
    for (size_t k = 0; k < whole.nodes[i].outputs.size(); ++k)
      part.outputs.push_back({static_cast<int32_t>(i), static_cast<int32_t>(k)});
    split->parts.push_back(std::move(part));
  }
  add_run(begin, whole.nodes.size());
  return split;
}

void set_params(const Split& split, const ArrayList& parameters) {
  for (const Part& part : split.parts) {
    if (!part.graph) continue;
    ArrayList own;
    for (int i : part.parameters) own.push_back(parameters[static_cast<size_t>(i)]);
    part.graph->set_params(std::move(own));
  }
}

IntrusivePtr<CachedGraph> cached_graph_of(Graph graph, bool is_part) {
  std::string name = graph.name;
  auto shared = std::make_shared<const Graph>(std::move(graph));
  return make_ref<CachedGraph>(
      [shared](const ArrayList& inputs, const ArrayList& parameters) {
        return Trace::current()->inline_graph(*shared, inputs, parameters);
      },
      std::move(name), is_part);
}

}  // namespace mxlite::graph
