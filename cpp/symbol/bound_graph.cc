#include "cpp/symbol/bound_graph.h"

#include <algorithm>

#include "cpp/autograd/anomaly.h"
#include "cpp/autograd/call.h"
#include "cpp/autograd/graph_node.h"
#include "cpp/autograd/mode.h"
#include "cpp/ops/collective/run.h"

namespace mxlite::symbol {
namespace {

// Calls the graph and returns its outputs. If the trace fails, also makes the collectives that the
// trace has reached fail on the other ranks.
NDArrays call_or_give_up(graph::CachedGraph& graph, std::span<const NDArrayRef> inputs,
                         engine::Origin origin) {
  collective::forget_failed_trace();
  try {
    return autograd::call(graph, inputs, origin);
  } catch (const std::exception& error) {
    collective::give_up_failed_trace(error.what());
    throw;
  }
}

bool chooses_storage(const Listing& listing) {
  return std::ranges::any_of(listing.nodes, [](const NodeRef& node) {
    return !node->is_variable() && !node->call->host() && node->call->op->storage.chooses_storage;
  });
}

bool has_sparse(const Arrays& arrays) {
  return std::ranges::any_of(arrays, [](const NDArrayRef& a) { return a && a->is_sparse(); });
}

NDArrayRef zeros(const TensorSpec& spec, Device device) {
  const std::pair<std::string_view, AttrValue> attrs[] = {{"shape", spec.shape},
                                                          {"dtype", spec.dtype}};
  const OpSchema& op = ops().get("_zeros");
  return autograd::call(op, op.make_params_by_name(attrs), {}, {.device = device})[0];
}

}  // namespace

SymbolFunction::SymbolFunction(NodeOutputs heads, std::vector<std::string> names,
                               std::optional<Calls> calls)
    : heads_(std::move(heads)),
      names_(std::move(names)),
      has_calls_(calls.has_value()),
      listing_(heads_, calls ? *calls : Calls()) {
  for (size_t i = 0; i < names_.size(); ++i) array_of_name_[names_[i]] = i;
  for (const int32_t id : listing_.graph.inputs) {
    const std::string& name = listing_.graph.node(id).name().text;
    const auto found = array_of_name_.find(name);
    MX_CHECK(found != array_of_name_.end(), "the variable '", name, "' has no value");
    positions_.push_back(found->second);
  }
}

Arrays SymbolFunction::leaves(const Arrays& arrays) const {
  MX_CHECK(arrays.size() == names_.size(),
           "the number of arrays must equal the number of variables, ", names_.size(), ", got ",
           arrays.size());
  Arrays found;
  for (size_t i = 0; i < positions_.size(); ++i) {
    found.push_back(arrays[positions_[i]]);
    if (found.back()->is_sparse()) continue;
    check_traced_shape(*listing_.graph.node(listing_.graph.inputs[i]).call, found.back()->shape());
  }
  return found;
}

Arrays SymbolFunction::with_listing(const Arrays& arrays, auto follow) const {
  const auto known = [&](const Node& variable) {
    const NDArrayRef& array = arrays[array_of_name_.at(variable.name())];
    return Inference::Known{array->shape(), array->dtype()};
  };
  const Calls calls = has_calls_ ? Calls() : calls_with_shapes(heads_, known);
  if (calls.empty()) return follow(listing_);
  return follow(Listing(heads_, calls));
}

Arrays SymbolFunction::trace(const Arrays& arrays) const {
  const Arrays values = leaves(arrays);
  return with_listing(arrays, [&](const Listing& l) { return trace_calls(l.graph, values); });
}

Arrays SymbolFunction::run(const Arrays& arrays, const NodeRun& run_node) const {
  const Arrays values = leaves(arrays);
  return with_listing(arrays, [&](const Listing& l) {
    return run_nodes(l.graph, graph::GraphRoute(l.graph), values, run_node);
  });
}

BoundArrays bound_arrays(const NodeOutputs& heads, const std::map<std::string, NDArrayRef>& given,
                         const Inference::Shapes& shapes, Device device,
                         autograd::GradReq request) {
  Inference::Shapes known = shapes;
  Inference::Types types;
  for (const auto& [name, array] : given) {
    known[name] = array->shape();
    types[name] = array->dtype();
  }
  Inference inference(heads, known, types, unknown_extent());
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  const autograd::ModeScope unrecorded({});
  const Variables variables = variables_of(inference.nodes());
  BoundArrays found;
  for (size_t i = 0; i < variables.all.size(); ++i) {
    const Node& variable = *variables.all[i];
    const Shape& shape = inference.shape(variable, 0);
    MX_CHECK(shape.is_known(), "bind: the shape of ", variable.name(),
             " cannot be inferred from the shapes that were given");
    const TensorSpec spec{shape, *inference.type(variable, 0)};
    const auto own = given.find(variable.name());
    const NDArrayRef array = own != given.end() ? own->second : zeros(spec, device);
    if (variables.is_state[i]) {
      found.states.push_back(array);
      continue;
    }
    const bool wanted = request != autograd::GradReq::kNull;
    found.arguments.push_back(array);
    found.gradients.push_back(wanted ? zeros(spec, device) : nullptr);
    found.requests.push_back(request);
  }
  return found;
}

BoundGraph::BoundGraph(const NodeOutputs& heads, const BoundArrays& arrays,
                       std::optional<Calls> calls, const std::string& name, NodeRun run_node)
    : heads_(heads), num_states_(arrays.states.size()), run_node_(std::move(run_node)) {
  const Listing listing(heads);
  const Variables variables = variables_of(listing.nodes);
  const std::vector<std::string> weights = weight_names(heads);
  std::vector<std::string> names, param_names, state_names;
  Arrays params, states;
  for (size_t i = 0, argument = 0, state = 0; i < variables.all.size(); ++i) {
    const std::string& variable = variables.all[i]->name();
    if (variables.is_state[i]) {
      state_names.push_back(variable);
      states.push_back(arrays.states.at(state++)->detached());
      continue;
    }
    // Attaches the gradient to a new handle, so that the user's array keeps its own history.
    const NDArrayRef handle = arrays.arguments.at(argument)->detached();
    const NDArrayRef& gradient = arrays.gradients.at(argument);
    const autograd::GradReq request = arrays.requests.at(argument++);
    if (gradient && request != autograd::GradReq::kNull)
      autograd::mark_variable(handle, gradient, request);
    const bool is_weight = std::ranges::find(weights, variable) != weights.end();
    (is_weight ? param_names : names).push_back(variable);
    (is_weight ? params : arrays_).push_back(handle);
  }
  if (arrays_.empty() && !params.empty()) {  // a call of a graph needs at least one input
    names.push_back(param_names.front());
    arrays_.push_back(params.front());
    param_names.erase(param_names.begin());
    params.erase(params.begin());
  }
  num_inputs_ = arrays_.size();
  names.insert(names.end(), param_names.begin(), param_names.end());
  names.insert(names.end(), state_names.begin(), state_names.end());
  params.insert(params.end(), states.begin(), states.end());
  arrays_.insert(arrays_.end(), params.begin(), params.end());
  function_ = std::make_shared<SymbolFunction>(heads, std::move(names), std::move(calls));
  if (run_node_ || num_inputs_ == 0 || has_sparse(arrays_) || has_sparse(arrays.gradients) ||
      chooses_storage(listing))
    return;
  const auto trace = [function = function_](const Arrays& inputs, const Arrays& parameters) {
    Arrays all = inputs;
    all.insert(all.end(), parameters.begin(), parameters.end());
    return function->trace(all);
  };
  graph_ = make_ref<graph::CachedGraph>(trace, name);
  graph_->set_params(std::move(params));
}

const Arrays& BoundGraph::forward(bool training, bool record, engine::Origin origin) {
  if (record) random_ = random_states();
  const autograd::ModeScope mode({.recording = record, .training = training});
  const bool on_graph = graph_ && !autograd::anomaly_checks.load();
  if (on_graph) {
    NDArrays made = call_or_give_up(*graph_, {arrays_.data(), num_inputs_}, origin);
    outputs_.assign(made.begin(), made.end());
  } else {
    outputs_ = function_->run(arrays_, run_node_);
  }
  training_ = training;
  recorded_ = record;
  on_graph_ = on_graph;
  spent_ = false;
  return outputs_;
}

bool BoundGraph::prepare_backward(bool training, engine::Origin origin) {
  if (recorded_ && !spent_) return false;
  if (recorded_)
    run_again(origin);
  else
    forward(training, /*record=*/true, origin);
  return true;
}

void BoundGraph::run_again(engine::Origin origin) {
  const AllRandomStates now = random_states();
  const std::span states(arrays_.end() - static_cast<ptrdiff_t>(num_states_), arrays_.end());
  Arrays kept;
  {
    const autograd::ModeScope unrecorded({});
    for (const NDArrayRef& state : states) kept.push_back(autograd::call_op("_copy", {state}));
  }
  set_random_states(random_);
  try {
    forward(training_, /*record=*/true, origin);
  } catch (...) {
    set_random_states(now);
    throw;
  }
  set_random_states(now);
  for (size_t i = 0; i < kept.size(); ++i) copy_to(kept[i], states[i]);
}

Arrays head_gradients(const NodeOutputs& heads, const Arrays& outputs, const Arrays& given) {
  MX_CHECK(given.size() <= outputs.size(),
           "backward: the number of gradients must be at most the number of outputs, ",
           outputs.size(), ", got ", given.size());
  if (given.empty()) return {};
  const autograd::ModeScope unrecorded({});
  Arrays grads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NDArrayRef& output = outputs[i];
    const Call& call = *heads[i].node->call;
    // A loss ignores the gradient of its output, so this gradient may have any shape.
    const bool ignored = call.op && !call.host() && call.op->symbol.constant_output;
    NDArrayRef grad;
    if (i >= given.size() || (given[i] && ignored && given[i]->shape() != output->shape())) {
      grad = autograd::call_op("zeros_like", {output});
    } else if (given[i]) {
      grad = given[i];
      if (grad->dtype() != output->dtype())
        grad = autograd::call_op("Cast", {grad}, {{"dtype", output->dtype()}});
      if (grad->device() != output->device()) grad = copy_to_device(grad, output->device());
    }
    grads.push_back(grad);
  }
  return grads;
}

void BoundGraph::backward(const Arrays& head_grads, bool training) {
  const Arrays grads = head_gradients(heads_, outputs_, head_grads);
  // Frees the saved values, because a second backward is rare. For a second backward,
  // prepare_backward runs forward again.
  spent_ = on_graph_;
  autograd::backward(outputs_, grads, {.retain_graph = !on_graph_, .training = training});
}

std::map<std::string, NDArrayRef> BoundGraph::values() const {
  std::map<std::string, NDArrayRef> found;
  for (size_t i = 0; i < arrays_.size(); ++i) found[function_->names()[i]] = arrays_[i];
  return found;
}

void BoundGraph::count_with(const BoundGraph& other) {
  if (graph_ && other.graph_) graph_->count_with(*other.graph_);
}

}  // namespace mxlite::symbol
