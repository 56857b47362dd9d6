#include "cpp/graph/run/segments.h"

#include <algorithm>
#include <map>
#include <set>

#include "cpp/graph/run/executable.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::graph {
namespace {

// Ids of nodes in ascending order.
using NodeList = std::vector<int32_t>;

bool holds(const NodeList& list, int32_t node) {
  return std::binary_search(list.begin(), list.end(), node);
}

// Copies some operators of a graph and the leaves that they use to a new graph.
class SegmentExtract {
 public:
  SegmentExtract(const Graph& whole, const NodeList& chosen) : whole_(whole), chosen_(chosen) {
    graph_.name = whole.name;
    graph_.training = whole.training;
  }

  Segment run(const std::vector<ValueId>& wanted) {
    for (const int32_t i : chosen_) {
      Node copy = whole_.nodes[static_cast<size_t>(i)];
      for (ValueId& v : copy.inputs) v = here(v);
      graph_.nodes.push_back(std::move(copy));
      nodes_.emplace_back(i, last());
    }
    for (ValueId v : wanted) graph_.outputs.push_back(here(v));
    segment_.outputs = wanted;
    segment_.graph =
        cached_graph_of(std::make_shared<const Graph>(std::move(graph_)), /*is_segment=*/true);
    return std::move(segment_);
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
      segment_.parameters.push_back(n.index);
    else
      segment_.inputs.push_back(v);
    leaves_.emplace_back(v, last());
    return {last(), 0};
  }

  const Graph& whole_;
  const NodeList& chosen_;
  Graph graph_;
  Segment segment_;
  std::vector<std::pair<int32_t, int32_t>> nodes_;  // pairs of a node of the whole graph and its
                                                    // copy, in ascending order
  std::vector<std::pair<ValueId, int32_t>> leaves_;
};

// Returns the values of `nodes` that other nodes or the graph's outputs use.
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

// Returns whether a node writes its inputs. The segment must then run even without outputs.
bool has_effect(const Graph& g, const NodeList& nodes) {
  for (const int32_t i : nodes) {
    const Node& n = g.nodes[static_cast<size_t>(i)];
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.op()->mutates(static_cast<int>(k), g.training)) return true;
  }
  return false;
}

bool is_random(const Node& n) { return n.op()->random_count != nullptr; }

// Divides the operators between two calls by the last collective that they depend on. Operators
// that do not depend on the collective run while it waits for other processes. Nodes that include
// writing or random operators are not divided, because they must keep their order.
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

void set_terms(SegmentedGraph& graph) {
  std::map<collective::Channel, int> calls;
  for (auto segment = graph.segments.rbegin(); segment != graph.segments.rend(); ++segment) {
    if (!segment->collective) continue;
    const Node& node = *segment->collective;
    collective::Terms& terms = segment->terms;
    terms = collective::terms_of(*node.op(), node.params().get(), graph.whole.spec(node.inputs[0]));
    if (terms.kind != collective::Kind::kNone) terms.later = calls[collective::channel_of(terms)]++;
  }
}

bool writes_inputs(const Graph& g, const Node& n) {
  for (size_t k = 0; k < n.inputs.size(); ++k)
    if (n.kind == NodeKind::kOp && n.call->writes(static_cast<int>(k), g.training)) return true;
  return false;
}

bool can_join(const SegmentedGraph& graph, const Segment& segment) {
  if (segment.host) return false;
  if (!segment.collective || segment.terms.kind == collective::Kind::kNone) return true;
  const Node& node = *segment.collective;
  return collective::runs_in_place(segment.terms, graph.whole.spec(node.inputs[0]),
                                   node.outputs[0]);
}

// Finds the dependences between segments. Also finds whether one task can run all segments.
void connect(SegmentedGraph& graph) {
  const Graph& g = graph.whole;
  const ValueSlots& slots = graph.slots;
  std::vector<Segment>& segments = graph.segments;
  bool possible =
      std::ranges::all_of(segments, [&](const Segment& s) { return can_join(graph, s); }) &&
      std::ranges::none_of(g.nodes, [&](const Node& n) {
        return n.kind == NodeKind::kConstant || writes_inputs(g, n);
      });
  std::vector<int> maker(slots.size(), -1);  // the segment that computes a value
  std::vector<uint8_t> is_copy(slots.size());
  std::vector<std::set<size_t>> calls(segments.size());  // for each segment: segments whose result
                                                         // it needs
  size_t num_calls = 0;
  for (size_t i = 0; i < segments.size() && possible; ++i) {
    Segment& segment = segments[i];
    if (segment.collective)
      graph.sets.try_emplace(segment.terms.process_set, segment.collective->op()->name.c_str());
    if (segment.collective && segment.terms.kind == collective::Kind::kNone) {
      const Route::Slot output = slots.of(segment.outputs[0]);
      maker[output] = maker[slots.of(segment.inputs[0])];
      is_copy[output] = 1;
      continue;
    }
    std::set<size_t> before;
    for (const Route::Slot slot : slots.of(segment.inputs))
      if (maker[slot] >= 0) before.insert(static_cast<size_t>(maker[slot]));
    segment.needs = static_cast<uint32_t>(before.size());
    for (const size_t b : before) {
      segments[b].next.push_back(static_cast<uint32_t>(i));
      calls[i].insert(calls[b].begin(), calls[b].end());
    }
    for (const Route::Slot slot : slots.of(segment.outputs)) maker[slot] = static_cast<int>(i);
    if (!segment.collective) continue;
    segment.foreign_input = before.empty();
    calls[i].insert(i);
    ++num_calls;
  }
  std::set<Route::Slot> results;
  for (const ValueId v : g.outputs) {
    const Route::Slot slot = slots.of(v);
    const int i = maker[slot];
    // One task cannot run all segments if a result is an input of the graph or another result,
    // because it would have to be copied. The same holds if a result does not depend on all calls,
    // because such a result must not wait for the other calls.
    possible = possible && i >= 0 && !is_copy[slot] && results.insert(slot).second &&
               calls[static_cast<size_t>(i)].size() == num_calls;
    if (i >= 0) segments[static_cast<size_t>(i)].is_result = true;
  }
  graph.can_join = possible;
}

}  // namespace

SegmentedGraph::SegmentedGraph(Graph graph)
    : whole(std::move(graph)), task_name(task_name_of(whole.name)), slots(whole) {}

bool has_calls(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return is_collective(n) || n.call->host() != nullptr; });
}

std::shared_ptr<const SegmentedGraph> cut_at_calls(Graph graph) {
  auto result = std::make_shared<SegmentedGraph>(std::move(graph));
  const Graph& whole = result->whole;
  std::vector<int> last_collective(whole.nodes.size(), -1);  // for each node: the last collective
                                                             // on which it depends
  NodeList between;
  const auto add_segments = [&] {
    for (const NodeList& nodes : by_dependence(whole, between, last_collective)) {
      if (nodes.empty()) continue;
      const std::vector<ValueId> wanted = values_used_elsewhere(whole, nodes);
      if (!wanted.empty() || has_effect(whole, nodes))
        result->segments.push_back(SegmentExtract(whole, nodes).run(wanted));
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
    add_segments();
    Segment segment;
    segment.host = host;
    if (collective) {
      segment.collective = &node;
      last_collective[i] = static_cast<int>(i);
    }
    segment.inputs = node.inputs;
    segment.name = node.name().label();
    for (size_t k = 0; k < node.outputs.size(); ++k)
      segment.outputs.push_back({static_cast<int32_t>(i), static_cast<int32_t>(k)});
    result->segments.push_back(std::move(segment));
  }
  add_segments();
  set_terms(*result);
  const ValueSlots& slots = result->slots;
  result->route.add_values(slots.size());
  for (const Segment& segment : result->segments)
    result->route.add_step(slots.of(segment.inputs), slots.of(segment.outputs));
  result->route.finish(slots.of(whole.outputs));
  connect(*result);
  result->prepared.resize(result->segments.size());
  return result;
}

void set_params(const SegmentedGraph& graph, const ArrayList& parameters) {
  for (const Segment& segment : graph.segments) {
    if (!segment.graph) continue;
    ArrayList own;
    for (int i : segment.parameters) own.push_back(parameters[static_cast<size_t>(i)]);
    segment.graph->set_params(std::move(own));
  }
}

IntrusivePtr<CachedGraph> cached_graph_of(std::shared_ptr<const Graph> graph, bool is_segment) {
  std::string name = graph->name;
  return make_ref<CachedGraph>(
      [graph = std::move(graph)](const ArrayList& inputs, const ArrayList& parameters) {
        return Trace::current()->inline_graph(*graph, inputs, parameters);
      },
      std::move(name), is_segment);
}

}  // namespace mxlite::graph
