#include "cpp/autograd/graph_node.h"

#include <algorithm>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/graph/split.h"

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

// Runs a graph's nodes as eager calls.
class EagerReplay {
 public:
  EagerReplay(const Graph& g, Device device)
      : graph_(g), device_(device), values_(g.nodes.size()) {}

  void set(int32_t node, NDArrayRef array) { values_[static_cast<size_t>(node)] = {array}; }

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      if (n.kind == NodeKind::kConstant) values_[i] = {n.value};
      if (n.kind != NodeKind::kOp) continue;
      NDArrays inputs;
      for (ValueId v : n.inputs) inputs.push_back(at(v));
      const NDArrays outputs = call(*n.op, n.params, inputs, {.device = device_});
      values_[i].assign(outputs.begin(), outputs.end());
    }
  }
  const NDArrayRef& at(ValueId v) const {
    return values_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }

 private:
  const Graph& graph_;
  Device device_;
  std::vector<std::vector<NDArrayRef>> values_;
};

// Copies state that the operators write, because the first run has written it already.
NDArrayRef copy_of(const NDArrayRef& a) {
  NDArrayRef copy = NDArray::empty(a->spec(), a->device());
  copy_to(a, copy);
  return copy;
}

bool is_written(const Graph& g, int32_t node) {
  for (const Node& n : g.nodes)
    for (size_t k = 0; n.kind == NodeKind::kOp && k < n.inputs.size(); ++k)
      if (n.inputs[k].node == node && n.op->mutates(static_cast<int>(k), g.training)) return true;
  return false;
}

// Runs a graph that was cut at its host operators; every part records itself.
NDArrays run_parts(const graph::Split& split, std::span<const NDArrayRef> inputs,
                   const graph::ArrayList& parameters, engine::Origin origin) {
  const Graph& g = split.whole;
  std::vector<std::vector<NDArrayRef>> values(g.nodes.size());
  const auto at = [&](ValueId v) -> const NDArrayRef& {
    return values[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  };
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i])] = {inputs[i]};
  for (size_t i = 0; i < parameters.size(); ++i)
    values[static_cast<size_t>(g.parameters[i])] = {parameters[i]};
  for (const graph::Part& part : split.parts) {
    NDArrays operands;
    for (ValueId v : part.inputs) operands.push_back(at(v));
    NDArrays results;
    try {
      results = part.graph ? call(*part.graph, operands, origin) : part.host->call(operands);
    } catch (Error& error) {
      if (part.host) error.add_context(str("while running node ", part.name, " of ", g.name));
      throw;
    }
    for (size_t k = 0; k < part.outputs.size(); ++k) {
      auto& list = values[static_cast<size_t>(part.outputs[k].node)];
      list.resize(std::max(list.size(), static_cast<size_t>(part.outputs[k].output) + 1));
      list[static_cast<size_t>(part.outputs[k].output)] = results[k];
    }
  }
  const OpSchema& identity = ops().get("_copy");
  NDArrays outputs;
  for (ValueId v : g.outputs) {
    const bool taken = std::find(outputs.begin(), outputs.end(), at(v)) != outputs.end();
    const bool fresh = g.node(v).kind == NodeKind::kOp && !taken;
    outputs.push_back(fresh ? at(v) : call(identity, identity.default_params, {&at(v), 1})[0]);
  }
  return outputs;
}

}  // namespace

NDArrays call(graph::CachedGraph& cached, std::span<const NDArrayRef> inputs,
              engine::Origin origin) {
  if (graph::Trace::current()) {
    const graph::ArrayList outputs = cached.run_in_trace(inputs);
    return NDArrays(outputs.begin(), outputs.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    MX_CHECK_KIND(!inputs[i]->is_traced(), ErrorKind::kError, cached.name(), ": input ", i,
                  " was made while a hybridized forward was traced and has no data; return it from "
                  "forward instead of keeping it");
  graph::CachedGraph::Ready ready = cached.prepare(
      inputs, {mode.training, mode.recording, mode.recording ? needs_gradient : nullptr});
  if (ready.entry->split) return run_parts(*ready.entry->split, inputs, *ready.parameters, origin);
  graph::Executable::Call args{inputs, *ready.parameters, origin};
  if (!ready.entry->recorded) return ready.entry->plain->launch(args);

  RandomState random;
  args.random = &random;
  NDArrays outputs = ready.entry->recorded->forward().launch(args);
  auto node = make_ref<GraphNode>(cached.name(), ready, inputs, outputs, random);
  outputs.resize(ready.entry->num_outputs);
  std::vector<NDArrayRef> all(inputs.begin(), inputs.end());
  all.insert(all.end(), ready.parameters->begin(), ready.parameters->end());
  node->connect(all, outputs);
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
    // Drops an output's own link to this node, which would be a cycle.
    saved_.push_back(s.is_input ? from : from->detached());
    saved_versions_.push_back(version_of(*from));
  }
  for (int i : recorded.read_parameters())
    parameter_versions_.push_back(version_of(*(*ready_.parameters)[static_cast<size_t>(i)]));
}

void GraphNode::check_versions(const graph::RecordedGraph::Backward& plan) const {
  constexpr const char* kChanged =
      ", was changed in place after it was recorded; its old value is needed";
  for (int i : plan.saved) {
    const auto at = static_cast<size_t>(i);
    MX_CHECK_KIND(is_readable(*saved_[at], saved_versions_[at]), ErrorKind::kError,
                  "backward: a value of ", name_, ", an array of shape ", saved_[at]->shape(),
                  kChanged);
  }
  const std::vector<int>& read = ready_.entry->recorded->read_parameters();
  for (size_t k = 0; k < read.size(); ++k) {
    const NDArrayRef& p = (*ready_.parameters)[static_cast<size_t>(read[k])];
    MX_CHECK_KIND(is_readable(*p, parameter_versions_[k]), ErrorKind::kError,
                  "backward: parameter ", read[k], " of ", name_, ", an array of shape ",
                  p->shape(), kChanged);
  }
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
  check_versions(*plan);
  std::vector<NDArrayRef> inputs;
  for (int i : plan->saved) inputs.push_back(saved_[static_cast<size_t>(i)]);
  for (int i : plan->heads) inputs.push_back(output_grads[static_cast<size_t>(i)]);
  // Arrays that backward reads cannot become gradients.
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
  const NDArrays grads = plan->executable->launch(
      {.inputs = inputs, .parameters = *ready_.parameters, .into = targets, .in_pieces = true});
  std::vector<NDArrayRef> result(needs.size());
  for (size_t i = 0; i < needs.size(); ++i)
    if (needs[i] && plan->grads[i] >= 0) result[i] = grads[static_cast<size_t>(plan->grads[i])];
  return result;
}

std::vector<NDArrayRef> GraphNode::replay(std::span<const NDArrayRef> output_grads,
                                          std::span<const uint8_t> needs) {
  const Graph& g = ready_.entry->recorded->traced();
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
      // Keeps the link of the time of recording in a node of its own: an array that was
      // passed twice counts as two variables.
      array->set_autograd(this->inputs()[i]);
      const NDArrayRef variable = array->detached();
      record_view(identity, identity.default_params, array, variable);
      variables.push_back(variable);
      array = variable;
    }
    forward.set(id, std::move(array));
  }
  forward.run();
  std::vector<NDArrayRef> heads, head_grads;
  for (size_t i = 0; i < output_grads.size(); ++i) {
    const NDArrayRef& head = forward.at(g.outputs[i]);
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
