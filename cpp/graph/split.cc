#include "cpp/graph/split.h"

#include <algorithm>
#include <map>

#include "cpp/graph/joined_parts.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::graph {
namespace {

// Nodes of a graph, ascending.
using NodeList = std::vector<int32_t>;

bool holds(const NodeList& list, int32_t node) {
  return std::binary_search(list.begin(), list.end(), node);
}

// Copies some operators and the leaves that they use.
class Extract {
 public:
  Extract(const Graph& whole, const NodeList& chosen) : whole_(whole), chosen_(chosen) {
    graph_.name = whole.name;
    graph_.training = whole.training;
  }

  Part run(const std::vector<ValueId>& wanted) {
    for (const int32_t i : chosen_) {
      Node copy = whole_.nodes[static_cast<size_t>(i)];
      for (ValueId& v : copy.inputs) v = here(v);
      graph_.nodes.push_back(std::move(copy));
      nodes_.emplace_back(i, last());
    }
    for (ValueId v : wanted) graph_.outputs.push_back(here(v));
    part_.outputs = wanted;
    part_.graph =
        cached_graph_of(std::make_shared<const Graph>(std::move(graph_)), /*is_part=*/true);
    return std::move(part_);
  }

 private:
  int32_t last() const { return static_cast<int32_t>(graph_.nodes.size() - 1); }

  ValueId here(ValueId v) {
    if (holds(chosen_, v.node)) {
      const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), std::pair{v.node, int32_t{0}});
      return {at->second, v.output};
    }
    for (const auto& [outer, own] : leaves_)
      if (outer == v) return {own, 0};
    const Node& n = whole_.node(v);
    const bool is_parameter = n.kind == NodeKind::kParameter;
    graph_.add_leaf(is_parameter ? NodeKind::kParameter : NodeKind::kInput, whole_.spec(v),
                    n.name());
    if (is_parameter)
      part_.parameters.push_back(n.index);
    else
      part_.inputs.push_back(v);
    leaves_.emplace_back(v, last());
    return {last(), 0};
  }

  const Graph& whole_;
  const NodeList& chosen_;
  Graph graph_;
  Part part_;
  std::vector<std::pair<int32_t, int32_t>> nodes_;  // node of the whole graph to node here, in
                                                    // order
  std::vector<std::pair<ValueId, int32_t>> leaves_;
};

// Collects values of some operators that other nodes or the graph's outputs use.
std::vector<ValueId> values_used_elsewhere(const Graph& g, const NodeList& nodes) {
  std::vector<ValueId> found;
  const auto look_at = [&](ValueId v) {
    if (!holds(nodes, v.node)) return;
    if (std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
  };
  for (size_t i = static_cast<size_t>(nodes.front()); i < g.nodes.size(); ++i)
    if (!holds(nodes, static_cast<int32_t>(i)))
      for (ValueId v : g.nodes[i].inputs) look_at(v);
  for (ValueId v : g.outputs) look_at(v);
  return found;
}

// Returns whether a node writes its inputs, so that the part must run even without outputs.
bool has_effect(const Graph& g, const NodeList& nodes) {
  for (const int32_t i : nodes) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.op()->mutates(static_cast<int>(k), g.training)) return true;
  }
  return false;
}

bool is_random(const Node& n) { return n.op()->random_count != nullptr; }

// Divides the operators between two calls by the last collective that they depend on: what does not
// need its result runs while other processes are waited for. Operators with effects and random ones
// keep their order.
std::vector<NodeList> by_dependence(const Graph& g, const NodeList& nodes,
                                    const std::vector<int>& last_collective) {
  const bool ordered =
      has_effect(g, nodes) || std::any_of(nodes.begin(), nodes.end(), [&](int32_t i) {
        return is_random(g.nodes[static_cast<size_t>(i)]);
      });
  if (ordered) return {nodes};
  std::map<int, NodeList> groups;
  for (const int32_t i : nodes) groups[last_collective[static_cast<size_t>(i)]].push_back(i);
  std::vector<NodeList> list;
  for (auto& [collective, group] : groups) list.push_back(std::move(group));
  return list;
}

bool is_collective(const Node& node) {
  return node.kind == NodeKind::kOp && collective::is_collective(*node.op());
}

void count_later_calls(Split& split) {
  std::map<collective::Channel, int> calls;
  for (auto part = split.parts.rbegin(); part != split.parts.rend(); ++part) {
    if (!part->collective) continue;
    const Node& node = *part->collective;
    const collective::Terms terms =
        collective::terms_of(*node.op(), node.params().get(), split.whole.spec(node.inputs[0]));
    if (terms.kind != collective::Kind::kNone) part->later = calls[collective::channel_of(terms)]++;
  }
}

}  // namespace

bool has_calls(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return is_collective(n) || n.call->host() != nullptr; });
}

std::shared_ptr<const Split> split_at_calls(Graph graph) {
  auto split = std::make_shared<Split>();
  split->whole = std::move(graph);
  const Graph& whole = split->whole;
  std::vector<int> last_collective(whole.nodes.size(), -1);  // The last one that a node depends on.
  NodeList between;
  const auto add_parts = [&] {
    for (const NodeList& nodes : by_dependence(whole, between, last_collective)) {
      if (nodes.empty()) continue;
      const std::vector<ValueId> wanted = values_used_elsewhere(whole, nodes);
      if (!wanted.empty() || has_effect(whole, nodes))
        split->parts.push_back(Extract(whole, nodes).run(wanted));
    }
    between.clear();
  };
  for (size_t i = 0; i < whole.nodes.size(); ++i) {
    const Node& node = whole.nodes[i];
    for (ValueId v : node.inputs)
      last_collective[i] =
          std::max(last_collective[i], last_collective[static_cast<size_t>(v.node)]);
    if (node.kind != NodeKind::kOp) continue;
    const HostOp* host = node.call->host();
    const bool collective = is_collective(node);
    if (!host && !collective) {
      between.push_back(static_cast<int32_t>(i));
      continue;
    }
    add_parts();
    Part part;
    part.host = host;
    if (collective) {
      part.collective = &node;
      last_collective[i] = static_cast<int>(i);
    }
    part.inputs = node.inputs;
    part.name = node.name().label();
    for (size_t k = 0; k < node.outputs.size(); ++k)
      part.outputs.push_back({static_cast<int32_t>(i), static_cast<int32_t>(k)});
    split->parts.push_back(std::move(part));
  }
  add_parts();
  count_later_calls(*split);
  split->joined = std::make_shared<const JoinedParts>(*split);
  return split;
}

void give_up_calls(const Split& split, size_t first_part) noexcept {
  try {
    collective::PlannedCalls calls;
    for (size_t i = first_part; i < split.parts.size(); ++i)
      if (const Node* node = split.parts[i].collective)
        calls.add(*node->op(), node->params(), split.whole.spec(node->inputs[0]));
    calls.give_up(collective::text_of_current_exception());
  } catch (const std::bad_alloc&) {
    // If there is no memory for the announcement, the other ranks wait until their deadline.
  }
}

void set_params(const Split& split, const ArrayList& parameters) {
  for (const Part& part : split.parts) {
    if (!part.graph) continue;
    ArrayList own;
    for (int i : part.parameters) own.push_back(parameters[static_cast<size_t>(i)]);
    part.graph->set_params(std::move(own));
  }
}

IntrusivePtr<CachedGraph> cached_graph_of(std::shared_ptr<const Graph> graph, bool is_part) {
  std::string name = graph->name;
  return make_ref<CachedGraph>(
      [graph = std::move(graph)](const ArrayList& inputs, const ArrayList& parameters) {
        return Trace::current()->inline_graph(*graph, inputs, parameters);
      },
      std::move(name), is_part);
}

}  // namespace mxlite::graph
