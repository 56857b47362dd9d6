#include "cpp/autograd/graph_node.h"

#include <algorithm>
#include <unordered_set>

#include "cpp/autograd/call.h"
#include "cpp/autograd/gradient_order.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/op_node.h"
#include "cpp/autograd/overwritten.h"
#include "cpp/graph/gradient.h"
#include "cpp/graph/run/launch.h"
#include "cpp/graph/walk.h"

namespace mxlite::autograd {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

bool needs_gradient(const NDArray& a) {
  const ArrayInfo* info = info_of(a);
  return info && (info->node || info->req != GradReq::kNull);
}

constexpr graph::EagerCalls kEagerCalls = {
    [](const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
       engine::Origin origin) { return call(op, params, inputs, {.origin = origin}); },
    [](graph::CachedGraph& graph, std::span<const NDArrayRef> inputs, engine::Origin origin) {
      return call(graph, inputs, origin);
    }};

using Arrays = std::vector<NDArrayRef>;

// Runs the operators of a graph one by one as eager calls.
class EagerReplay final : public graph::Visitor<NDArrayRef> {
 public:
  EagerReplay(const Graph& g, Device device)
      : graph_(g), device_(device), steps_(g), values_(steps_.slots.size()) {
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (g.nodes[i].kind == NodeKind::kConstant) set(static_cast<int32_t>(i), g.nodes[i].value);
  }

  void set(int32_t node, NDArrayRef array) {
    values_[steps_.slots.of({node, 0})] = std::move(array);
  }
  // Returns the graph's outputs.
  Arrays walk() { return graph::walk(steps_.route, std::move(values_), *this); }

  Arrays run(size_t step, const Arrays& inputs) override {
    const Node& n = node(step);
    const NDArrays outputs = call(*n.op(), n.params(), inputs, {.device = device_});
    Arrays all(outputs.begin(), outputs.end());
    all.resize(n.outputs.size());  // hidden outputs are unused and become null
    return all;
  }
  std::string place(size_t step) const override {
    return str("while running node ", node(step).name().label(), " of ", graph_.name);
  }

 private:
  const Node& node(size_t step) const { return graph_.node(steps_.nodes[step]); }

  const Graph& graph_;
  Device device_;
  const graph::GraphRoute steps_;
  Arrays values_;
};

// Copies a state that the operators write, because the first run has already updated it.
NDArrayRef copy_of(const NDArrayRef& a) {
  NDArrayRef copy = NDArray::empty(a->spec(), a->device());
  copy_to(a, copy);
  return copy;
}

// Returns whether gradients of the node's inputs may be nonzero even if all gradients of its
// outputs are zero. This is possible for nodes that run Python code and for checkpoints.
bool starts_gradient(const TapeNode& node) {
  if (const auto* call = dynamic_cast<const OpNode*>(&node)) return call->op().starts_gradient;
  const auto* block = dynamic_cast<const GraphNode*>(&node);
  if (!block || !block->traced()) return true;
  return std::ranges::any_of(block->traced()->nodes, [](const graph::Node& n) {
    return n.kind == graph::NodeKind::kOp && (n.call->host() || n.op()->starts_gradient);
  });
}

bool reaches_loss(const TapeNode* node) {
  std::vector<const TapeNode*> open{node};
  std::unordered_set<const TapeNode*> seen;
  while (!open.empty()) {
    const TapeNode* const next = open.back();
    open.pop_back();
    if (!next || !seen.insert(next).second) continue;
    if (starts_gradient(*next)) return true;
    for (const ArrayInfoRef& input : next->inputs())
      if (input) open.push_back(input->node.get());
  }
  return false;
}

NDArrayRef zeros_like(const NDArrayRef& a) {
  return call_op("_zeros", {}, {{"shape", a->shape()}, {"dtype", a->dtype()}}, a->device());
}

// Returns the inputs that get a gradient, in the order in which the program finishes the gradients.
std::vector<size_t> order_of(const graph::RecordedGraph::Backward& plan) {
  const std::vector<size_t> finished = graph::finishing_instructions(plan.executable->program());
  std::vector<size_t> order;
  for (size_t i = 0; i < plan.grads.size(); ++i)
    if (plan.grads[i] >= 0) order.push_back(i);
  const auto when = [&](size_t i) { return finished[static_cast<size_t>(plan.grads[i])]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return when(a) < when(b); });
  return order;
}

}  // namespace

bool is_written(const Graph& g, int32_t node) {
  for (const Node& n : g.nodes) {
    if (n.kind != NodeKind::kOp) continue;
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k].node == node && n.call->writes(static_cast<int>(k), g.training)) return true;
  }
  return false;
}

namespace {

NDArrays run_ready(const std::string& name, const graph::CachedGraph::Ready& ready,
                   std::span<const NDArrayRef> inputs, engine::Origin origin) {
  RandomState random;
  const bool recorded = ready.entry->recorded != nullptr;
  NDArrays outputs = graph::launch(*ready.entry,
                                   {.inputs = inputs,
                                    .parameters = *ready.parameters,
                                    .origin = origin,
                                    .random = recorded ? &random : nullptr},
                                   kEagerCalls);
  if (!recorded) return outputs;
  auto node = make_ref<GraphNode>(name, ready, inputs, outputs, random);
  outputs.resize(ready.entry->num_outputs);
  std::vector<NDArrayRef> all(inputs.begin(), inputs.end());
  all.insert(all.end(), ready.parameters->begin(), ready.parameters->end());
  node->connect(all, outputs);
  return outputs;
}

}  // namespace

NDArrays call(graph::CachedGraph& cached, std::span<const NDArrayRef> inputs,
              engine::Origin origin) {
  if (graph::Trace::current()) {
    const graph::ArrayList outputs = cached.run_in_trace(inputs);
    return without_gradient_if_paused(NDArrays(outputs.begin(), outputs.end()));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    MX_CHECK_KIND(
        !inputs[i]->is_traced(), ErrorKind::kError, cached.name(), ": input ", i,
        " must have data, got an array of a trace of a hybridized forward; return it from "
        "forward instead of keeping it");
  const graph::CachedGraph::Ready ready = cached.prepare(
      inputs, {mode.training, mode.recording, mode.recording ? needs_gradient : nullptr});
  NDArrays outputs = run_ready(cached.name(), ready, inputs, origin);
  if (ready.entry->numpy)
    for (const NDArrayRef& output : outputs) output->set_numpy(true);
  return outputs;
}

GraphNode::GraphNode(const std::string& name, graph::CachedGraph::Ready ready,
                     std::span<const NDArrayRef> inputs, std::span<const NDArrayRef> outputs,
                     RandomState random)
    : name_(name.empty() ? "hybridized block" : name),
      ready_(std::move(ready)),
      inputs_(inputs.begin(), inputs.end()),
      random_(random) {
  const graph::RecordedGraph& recorded = *ready_.entry->recorded;
  for (const graph::RecordedGraph::Source s : recorded.saved()) {
    const NDArrayRef& from = (s.is_input ? inputs : outputs)[static_cast<size_t>(s.index)];
    // Saves a handle without the output's link to this node, because the link would form a
    // reference cycle.
    saved_.push_back(s.is_input ? from : from->detached());
    saved_versions_.push_back(version_of(*from));
  }
  for (int i : recorded.read_parameters())
    parameter_versions_.push_back(version_of(*(*ready_.parameters)[static_cast<size_t>(i)]));
}

void GraphNode::check_versions(std::span<const int> read_values) const {
  const graph::RecordedGraph& recorded = *ready_.entry->recorded;
  for (int i : read_values) {
    const auto at = static_cast<size_t>(i);
    const graph::RecordedGraph::Source from = recorded.saved()[at];
    check_version(*saved_[at], saved_versions_[at], [&] {
      return str(from.is_input ? "input " : "output ", from.index, " of ", name_);
    });
  }
  const std::vector<int>& read = recorded.read_parameters();
  for (size_t k = 0; k < read.size(); ++k)
    check_version(*(*ready_.parameters)[static_cast<size_t>(read[k])], parameter_versions_[k],
                  [&] { return str("parameter ", read[k], " of ", name_); });
}

std::vector<NDArrayRef> GraphNode::backward(std::span<const NDArrayRef> output_grads,
                                            std::span<const uint8_t> needs) {
  if (mode.recording) return replay(output_grads, needs);
  return run_backward(output_grads, needs, {}, /*last=*/false);
}

std::vector<NDArrayRef> GraphNode::last_backward(std::span<const NDArrayRef> output_grads,
                                                 std::span<const uint8_t> needs,
                                                 std::span<const NDArrayRef> into) {
  std::vector<NDArrayRef> result = run_backward(output_grads, needs, into, /*last=*/true);
  released = true;
  release_saved();
  return result;
}

std::vector<NDArrayRef> GraphNode::run_backward(std::span<const NDArrayRef> output_grads,
                                                std::span<const uint8_t> needs,
                                                std::span<const NDArrayRef> into, bool last) {
  std::vector<uint8_t> heads;
  for (const NDArrayRef& g : output_grads) heads.push_back(g != nullptr);
  const auto plan = ready_.entry->recorded->backward(heads, last);
  check_versions(plan->saved);
  std::vector<NDArrayRef> inputs;
  for (int i : plan->saved) inputs.push_back(saved_[static_cast<size_t>(i)]);
  for (int i : plan->heads) inputs.push_back(output_grads[static_cast<size_t>(i)]);
  // Gradients must not be written into arrays that backward reads.
  const auto is_read = [&](const NDArrayRef& a) {
    const auto same = [&](const NDArrayRef& b) { return b->storage() == a->storage(); };
    return std::any_of(inputs.begin(), inputs.end(), same) ||
           std::any_of(ready_.parameters->begin(), ready_.parameters->end(), same);
  };
  std::vector<NDArrayRef> targets;
  for (size_t i = 0; i < into.size(); ++i) {
    if (!needs[i] || plan->grads[i] < 0 || !into[i] || is_read(into[i])) continue;
    const auto at = static_cast<size_t>(plan->grads[i]);
    targets.resize(std::max(targets.size(), at + 1));
    if (!targets[at]) targets[at] = into[i];
  }
  const NDArrays grads = graph::launch_backward(
      *plan->executable, {.inputs = inputs, .parameters = *ready_.parameters, .into = targets});
  if (notes_order()) gradient_order_ = order_of(*plan);
  std::vector<NDArrayRef> result(needs.size());
  for (size_t i = 0; i < needs.size(); ++i) {
    if (needs[i] && plan->grads[i] >= 0) result[i] = grads[static_cast<size_t>(plan->grads[i])];
    // Passes zeros to earlier calls if a loss is among these calls, because losses start gradients
    // even from zeros.
    if (needs[i] && plan->grads[i] == graph::BackwardGraph::kZero &&
        reaches_loss(this->inputs()[i]->node.get()))
      result[i] =
          zeros_like(i < inputs_.size() ? inputs_[i] : (*ready_.parameters)[i - inputs_.size()]);
  }
  return result;
}

std::vector<NDArrayRef> GraphNode::replay(std::span<const NDArrayRef> output_grads,
                                          std::span<const uint8_t> needs) {
  const Graph& g = ready_.entry->recorded->recorded();
  std::vector<int> read;
  for (size_t i = 0; i < saved_.size(); ++i)
    if (ready_.entry->recorded->saved()[i].is_input) read.push_back(static_cast<int>(i));
  check_versions(read);
  ModeScope scope({true, ready_.entry->training});
  RandomReplayScope same_numbers(random_);
  EagerReplay forward(g, device());
  const OpSchema& identity = ops().get("_copy");
  std::vector<NDArrayRef> variables, inputs(inputs_);
  inputs.insert(inputs.end(), ready_.parameters->begin(), ready_.parameters->end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_input = i < g.inputs.size();
    const int32_t id = is_input ? g.inputs[i] : g.parameters[i - g.inputs.size()];
    NDArrayRef array = is_written(g, id) ? copy_of(inputs[i]) : inputs[i]->detached();
    if (needs[i]) {
      // Uses the history that the array had when the call was recorded. Each input gets a separate
      // variable, even if one array was passed twice.
      array->set_autograd(this->inputs()[i]);
      const NDArrayRef variable = array->detached();
      record_view(identity, identity.default_params, array, variable);
      variables.push_back(variable);
      array = variable;
    }
    forward.set(id, std::move(array));
  }
  const Arrays outputs = forward.walk();
  std::vector<NDArrayRef> heads, head_grads;
  for (size_t i = 0; i < output_grads.size(); ++i) {
    const NDArrayRef& head = outputs[i];
    if (!output_grads[i] || !needs_gradient(*head)) continue;
    heads.push_back(head);
    head_grads.push_back(output_grads[i]);
  }
  std::vector<NDArrayRef> result(needs.size());
  if (heads.empty()) return result;
  const std::vector<NDArrayRef> grads =
      gradients(heads, head_grads, variables,
                {.create_graph = true, .training = ready_.entry->training, .partial = true});
  for (size_t i = 0, k = 0; i < needs.size(); ++i)
    if (needs[i]) result[i] = grads[k++];
  return result;
}

void GraphNode::release_saved() {
  saved_.clear();
  inputs_.clear();
  ready_ = {};
}

}  // namespace mxlite::autograd
