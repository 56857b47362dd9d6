#include "cpp/symbol/run.h"

#include <algorithm>

#include "cpp/autograd/call.h"
#include "cpp/graph/cached_graph.h"
#include "cpp/graph/host_op.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/amp.h"

namespace mxlite::symbol {
namespace {

Arrays run_plainly(const CallRef& call, const Arrays& inputs) {
  const graph::HostOp* host = call->host();
  NDArrays made = host ? host->call(inputs) : run_operator(call, inputs, {}, {});
  made.resize(static_cast<size_t>(call->num_outputs(static_cast<int>(inputs.size()))));
  return {made.begin(), made.end()};
}

CallRunner call_runner = run_plainly;

class NodeVisitor final : public graph::Visitor<NDArrayRef> {
 public:
  NodeVisitor(const graph::Graph& graph, const graph::GraphRoute& route, const NodeRun& run_node)
      : graph_(graph), route_(route), run_node_(run_node) {}
  Arrays run(size_t step, const Arrays& inputs) override {
    const int32_t id = route_.nodes[step];
    return run_node_ ? run_node_(id, inputs) : call_runner(graph_.node(id).call, inputs);
  }

 private:
  const graph::Graph& graph_;
  const graph::GraphRoute& route_;
  const NodeRun& run_node_;
};

// Returns whether any of the nodes has a shape that its users determine.
bool has_open_shape(const std::vector<NodeRef>& nodes) {
  return std::ranges::any_of(nodes, [](const NodeRef& node) {
    return shape_from_users(*node->call, UnknownExtent::kZero);
  });
}

}  // namespace

void set_call_runner(CallRunner runner) { call_runner = runner; }

NDArrays run_operator(const CallRef& call, const Arrays& inputs, Device device,
                      engine::Origin origin) {
  graph::Trace* trace = graph::Trace::current();
  if (trace && !call->name.text.empty()) {
    const NDArrays promoted = autograd::promoted_inputs(*call->op, call->params.get(), inputs);
    if (!promoted.empty()) return trace->record(call, promoted);
    return trace->record(call, inputs);
  }
  const Device used = inputs.empty() ? device : inputs[0]->device();
  const amp::Pause no_amp;
  return autograd::call(*call->op, call->params, inputs,
                        {.device = used, .out = {}, .origin = origin});
}

size_t num_shown_outputs(const Call& call, int num_inputs) {
  const auto visible = static_cast<size_t>(call.num_outputs(num_inputs));
  if (call.host()) return visible;
  const auto total = static_cast<size_t>(call.total_outputs(num_inputs));
  return std::max(visible, std::min(total, call.traits().output_names.size()));
}

Arrays run_nodes(const graph::Graph& graph, const graph::GraphRoute& route, const Arrays& leaves,
                 const NodeRun& run_node) {
  Arrays values(route.slots.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    values[route.slots.of({graph.inputs[i], 0})] = leaves[i];
  NodeVisitor visitor(graph, route, run_node);
  return graph::walk(route.route, std::move(values), visitor);
}

Arrays trace_calls(const graph::Graph& graph, const Arrays& leaves) {
  graph::Trace::Expanded expanded;
  const bool numpy = graph::any_numpy(leaves);
  for (const graph::Node& node : graph.nodes)
    expanded.nodes.push_back(node.op() && (node.op()->storage.chooses_storage ||
                                           (numpy && node.op()->numpy) || node.call->host()));
  expanded.run = [&](int32_t id, const Arrays& inputs) {
    const CallRef& call = graph.node(id).call;
    Arrays made = call_runner(call, inputs);
    for (const NDArrayRef& array : made)
      MX_CHECK_KIND(!array->is_sparse(), ErrorKind::kType, call->file_op,
                    ": arrays inside a traced forward must be dense, got a sparse array of shape ",
                    array->shape());
    return made;
  };
  return graph::Trace::current()->inline_graph(graph, leaves, {}, expanded);
}

Calls calls_with_shapes(const NodeOutputs& heads,
                        const std::function<Inference::Known(const Node&)>& known) {
  if (!has_open_shape(topological_order(heads))) return {};
  const UnknownExtent unknown = unknown_extent();
  const auto shapes_as_written = [&](const Node& variable) {
    Inference::Known found = known(variable);
    if (found.shape) found.shape = known_shape(*found.shape, unknown);
    return found;
  };
  Inference inference(heads, shapes_as_written, unknown);
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  return inference.completed_calls();
}

SubgraphRun::SubgraphRun(const Subgraph& graph)
    : graph_(graph), listing_(graph.heads), route_(listing_.graph) {
  for (const int variable : graph.order()) variables_.push_back(static_cast<size_t>(variable));
  MX_ASSERT(variables_.size() == listing_.graph.inputs.size());
  has_open_shapes_ = has_open_shape(listing_.nodes);
}

Arrays SubgraphRun::operator()(const Arrays& arrays) const {
  MX_ASSERT(arrays.size() == graph_.variables.size());
  Arrays leaves;
  for (size_t i = 0; i < variables_.size(); ++i) {
    leaves.push_back(arrays[variables_[i]]);
    check_traced_shape(*listing_.graph.node(listing_.graph.inputs[i]).call, leaves.back()->shape());
  }
  if (!has_open_shapes_) return run(listing_, route_, leaves);
  const auto known = [&](const Node& variable) {
    Inference::Known found;
    for (size_t i = 0; i < graph_.variables.size(); ++i)
      if (graph_.variables[i].get() == &variable) found = {arrays[i]->shape(), arrays[i]->dtype()};
    return found;
  };
  const Listing completed(graph_.heads, calls_with_shapes(graph_.heads, known));
  return run(completed, graph::GraphRoute(completed.graph), leaves);
}

Arrays SubgraphRun::run(const Listing& listing, const graph::GraphRoute& route,
                        const Arrays& leaves) const {
  const auto is_dense = [](const NDArrayRef& array) { return !array->is_sparse(); };
  if (graph::Trace::current() && std::ranges::all_of(leaves, is_dense))
    return trace_calls(listing.graph, leaves);
  return run_nodes(listing.graph, route, leaves);
}

}  // namespace mxlite::symbol
