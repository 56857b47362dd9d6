#include "cpp/graph/trace.h"

#include <algorithm>
#include <atomic>

#include "cpp/ops/collective/run.h"

namespace mxlite::graph {
namespace {
thread_local Trace* current_trace = nullptr;
std::atomic<uint64_t> num_traces{0};
}  // namespace

bool any_numpy(std::span<const NDArrayRef> arrays) {
  return std::ranges::any_of(arrays, [](const NDArrayRef& array) { return array->is_numpy(); });
}

Trace::Trace(std::string name, Device device, bool training, bool recording, bool numpy)
    : outer_(current_trace),
      recording_(recording),
      numpy_(numpy),
      serial_(++num_traces),
      device_(device),
      later_(std::make_shared<EndedTrace>()) {
  graph_.name = std::move(name);
  graph_.training = training;
  current_trace = this;
}

Trace::Trace(std::string name, PartOfCurrent)
    : outer_(current_trace),
      is_part_(true),
      recording_(outer_->recording_),
      numpy_(outer_->numpy_),
      serial_(++num_traces) {
  device_ = outer_->device_;
  graph_.name = std::move(name);
  graph_.training = outer_->graph_.training;
  scope_ = outer_->scope_;
  current_trace = this;
}

Trace::~Trace() {
  current_trace = outer_;
  try {
    remember();
  } catch (const std::bad_alloc&) {  // without memory, later traces cannot use this trace's arrays
  }
}

void Trace::remember() {
  // If only this trace refers to the object, no array of the trace is alive, so the graph is not
  // needed.
  if (!later_ || later_->ended || later_.use_count() == 1) return;
  later_->graph = graph_;
  later_->owner = owner_;
  later_->ended = true;
}

Trace* Trace::current() { return current_trace; }

void Trace::fail_read(const NDArray& array, const char* what) {
  throw TracedArrayError(
      str(what, ": the array of shape ", array.shape(),
          " has no data while a hybridized forward is traced; move the read out of forward, or "
          "call net.hybridize(False)"));
}

void Trace::fail_outside(const OpSchema& op, int input) {
  fail(ErrorKind::kError, op.name, ": ", op.input_name(input),
       " must have data, got an array of a trace of a hybridized forward; return it from forward "
       "instead of keeping it");
}

NDArrayRef Trace::make_array(ValueId value) {
  NDArrayRef array =
      NDArray::traced(graph_.spec(value), device_, make_ref<TraceValue>(serial_, value, later_));
  array->set_numpy(numpy_);
  return array;
}

ValueId Trace::add_leaf(NodeKind kind, const TensorSpec& spec, const char* name, NDArrayRef value) {
  const size_t index = (kind == NodeKind::kInput ? graph_.inputs : graph_.parameters).size();
  return graph_.add_leaf(kind, spec, str(name, index), std::move(value));
}

NDArrayRef Trace::add_input(const TensorSpec& spec) {
  return make_array(add_leaf(NodeKind::kInput, spec, "data"));
}

NDArrayRef Trace::add_parameter(const TensorSpec& spec) {
  return make_array(add_leaf(NodeKind::kParameter, spec, "param"));
}

ValueId Trace::import(const NDArrayRef& array) {
  const ValueId outer = outer_->value_of(array);
  for (const Import& known : imports_)
    if (known.outer == outer) return known.own;
  const bool is_parameter = outer_->graph_.node(outer).kind == NodeKind::kParameter;
  const ValueId own = add_leaf(is_parameter ? NodeKind::kParameter : NodeKind::kInput,
                               outer_->graph_.spec(outer), is_parameter ? "param" : "data");
  (is_parameter ? imported_parameters_ : imported_inputs_).push_back(array);
  imports_.push_back({outer, own});
  return own;
}

void Trace::fail_foreign() const {
  fail(ErrorKind::kError, graph_.name,
       ": an array that was made while another hybridized forward was traced has no data and "
       "cannot be used here; return it from that forward instead of keeping it");
}

ValueId Trace::same_leaf(const EndedTrace& from, const Node& leaf) {
  if (leaf.value) return value_of(leaf.value);
  const auto leaves = [&](const Graph& graph) -> const std::vector<int32_t>& {
    return leaf.kind == NodeKind::kInput ? graph.inputs : graph.parameters;
  };
  // Counts the leaves without captured arrays. These leaves precede the captured leaves.
  const auto count = [&](const Graph& graph) {
    return std::count_if(leaves(graph).begin(), leaves(graph).end(),
                         [&](int32_t id) { return !graph.node(id).value; });
  };
  const std::vector<int32_t>& list = leaves(graph_);
  const auto at = static_cast<size_t>(leaf.index);
  const bool known = owner_ != 0 && owner_ == from.owner && count(graph_) == count(from.graph) &&
                     graph_.spec({list[at], 0}).dtype == leaf.outputs[0].dtype;
  if (!known) fail_foreign();
  return {list[at], 0};
}

ValueId Trace::repeat(const std::shared_ptr<EndedTrace>& from, ValueId value) {
  // Iterates over the nodes in order, because recursion could be as deep as the network.
  std::vector<ValueId> own(static_cast<size_t>(value.node) + 1);
  const std::vector<uint8_t> needed = find_needed(from->graph, {&value, 1});
  for (const Repeated& known : repeated_)
    if (known.from == from && known.node <= value.node)
      own[static_cast<size_t>(known.node)] = {known.own, 0};
  for (size_t i = 0; i < own.size(); ++i) {
    if (!needed[i] || own[i].node >= 0) continue;
    const Node& n = from->graph.nodes[i];
    if (n.kind != NodeKind::kOp) {
      own[i] = same_leaf(*from, n);
      continue;
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) {
      const ValueId leaf_or_node = own[static_cast<size_t>(v.node)];
      inputs.push_back({leaf_or_node.node, v.output});
    }
    check_mutation(*n.op(), inputs);
    own[i] = graph_.add_op(n.call, std::move(inputs));
    repeated_.push_back({from, static_cast<int32_t>(i), own[i].node});
  }
  return {own.back().node, value.output};
}

ValueId Trace::value_of(const NDArrayRef& array) {
  const auto* info = static_cast<const TraceValue*>(array->trace().get());
  if (info && info->trace == serial_) return info->value;
  if (is_part_) return import(array);
  if (info && info->later && info->later->ended) return repeat(info->later, info->value);
  if (info) fail_foreign();
  MX_CHECK_KIND(array->device() == device_, ErrorKind::kDevice, graph_.name,
                ": arrays that forward uses must be on the device of the inputs, ", device_,
                ", got one of shape ", array->shape(), " on ", array->device(),
                "; copy it with as_in_context");
  for (const auto& [known, value] : captured_)
    if (known == array) return value;
  const ValueId value = add_leaf(NodeKind::kParameter, array->spec(), "captured", array);
  captured_.emplace_back(array, value);
  return value;
}

void Trace::complete(ValueId value, const TensorSpec& spec) {
  graph_.nodes[static_cast<size_t>(value.node)].outputs[static_cast<size_t>(value.output)] = spec;
  for (const Import& known : imports_)
    if (known.own == value) outer_->complete(known.outer, spec);
}

void Trace::check_mutation(const OpSchema& op, std::span<const ValueId> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    MX_CHECK_KIND(!op.mutates(static_cast<int>(i), graph_.training) ||
                      graph_.node(inputs[i]).kind == NodeKind::kParameter,
                  ErrorKind::kError, op.name, ": ", op.input_name(static_cast<int>(i)),
                  " is changed in place and must be a parameter or an array made outside of the "
                  "hybridized forward");
}

NodeName Trace::name_of(const OpSchema& op, engine::Origin origin) const {
  if (scope_.whole) return scope_.name;
  const std::string& text = scope_.name.text;
  return {text.empty() ? str(op.name, graph_.nodes.size()) : str(text, '_', op.name),
          origin.file ? str(origin.file, ':', origin.line) : std::string()};
}

ValueId Trace::add(CallRef call, std::vector<ValueId> inputs, std::span<const NDArrayRef> arrays) {
  const OpSchema& op = *call->op;
  if (inputs.size() == 1) collective::note_traced(op, call->params, graph_.spec(inputs[0]));
  check_mutation(op, inputs);
  const auto is_known = [&](ValueId v) { return graph_.spec(v).shape.is_known(); };
  if (!std::ranges::all_of(inputs, is_known)) {
    if (op.complete) {
      std::vector<TensorSpec> specs;
      for (ValueId v : inputs) specs.push_back(graph_.spec(v));
      op.complete(call->params.get(), specs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        complete(inputs[i], specs[i]);
        if (i < arrays.size() && arrays[i]->is_traced()) arrays[i]->complete_spec(specs[i]);
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      MX_CHECK_SHAPE(is_known(inputs[i]), op.name, ": the shape of ",
                     op.input_name(static_cast<int>(i)), " must be known, got ",
                     graph_.spec(inputs[i]).shape, "; give the layer its input size");
  }
  return graph_.add_op(std::move(call), std::move(inputs));
}

std::vector<ValueId> Trace::values_of(std::span<const NDArrayRef> arrays) {
  std::vector<ValueId> values;
  for (const NDArrayRef& a : arrays) values.push_back(value_of(a));
  return values;
}

NDArrays Trace::outputs_of(int32_t node, std::span<const NDArrayRef> inputs) {
  NDArrays outputs;
  const size_t count = graph_.node(node).outputs.size();
  // The class of the inputs differs from the class of the trace after as_nd_ndarray() or
  // as_np_ndarray().
  const bool numpy = inputs.empty() ? numpy_ : any_numpy(inputs);
  for (size_t i = 0; i < count; ++i) {
    outputs.push_back(make_array({node, static_cast<int32_t>(i)}));
    outputs.back()->set_numpy(numpy);
  }
  return outputs;
}

NDArrays Trace::record(CallRef call, std::span<const NDArrayRef> inputs) {
  return outputs_of(add(std::move(call), values_of(inputs), inputs).node, inputs);
}

NDArrays Trace::record(const OpSchema& op, const ParamsRef& params,
                       std::span<const NDArrayRef> inputs, engine::Origin origin) {
  std::vector<ValueId> values = values_of(inputs);  // called before name_of, because it may add
                                                    // nodes
  auto call = std::make_shared<Call>();
  call->op = &op;
  call->params = params;
  call->name = name_of(op, origin);
  return outputs_of(add(std::move(call), std::move(values), inputs).node, inputs);
}

int32_t Trace::add_named(const CallRef& call, std::vector<ValueId> inputs,
                         std::span<const NDArrayRef> arrays) {
  try {
    return add(call, std::move(inputs), arrays).node;
  } catch (const Error& error) {
    if (call->file_op.empty()) throw;
    throw Error(error.kind(), call->error_text(error.what()));
  }
}

std::vector<NDArrayRef> Trace::inline_graph(const Graph& graph, std::span<const NDArrayRef> inputs,
                                            std::span<const NDArrayRef> parameters,
                                            const Expanded& expanded) {
  MX_ASSERT(inputs.size() == graph.inputs.size() && parameters.size() == graph.parameters.size());
  std::vector<std::vector<ValueId>> here(graph.nodes.size());  // for each value of the other
                                                               // graph: its value in this trace
  std::vector<NDArrayRef> leaves(graph.nodes.size());  // input and parameter arrays, per node
  const auto set = [&](int32_t node, const NDArrayRef& array) {
    here[static_cast<size_t>(node)] = {value_of(array)};
    leaves[static_cast<size_t>(node)] = array;
  };
  for (size_t i = 0; i < inputs.size(); ++i) set(graph.inputs[i], inputs[i]);
  for (size_t i = 0; i < parameters.size(); ++i) set(graph.parameters[i], parameters[i]);
  const auto map = [&](ValueId v) {
    const std::vector<ValueId>& outputs = here[static_cast<size_t>(v.node)];
    MX_ASSERT(static_cast<size_t>(v.output) < outputs.size());
    return outputs[static_cast<size_t>(v.output)];
  };
  const auto array_of = [&](ValueId v) {
    const NDArrayRef& leaf = leaves[static_cast<size_t>(v.node)];
    return leaf ? leaf : make_array(map(v));
  };
  const auto arrays_of = [&](const std::vector<ValueId>& values) {
    std::vector<NDArrayRef> arrays;
    for (ValueId v : values) arrays.push_back(array_of(v));
    return arrays;
  };
  const auto is_known = [&](ValueId v) { return graph_.spec(map(v)).shape.is_known(); };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.kind != NodeKind::kOp) continue;
    if (!expanded.nodes.empty() && expanded.nodes[i]) {
      for (const NDArrayRef& made : expanded.run(static_cast<int32_t>(i), arrays_of(n.inputs)))
        here[i].push_back(value_of(made));
      continue;
    }
    std::vector<ValueId> values;
    for (ValueId v : n.inputs) values.push_back(map(v));
    std::vector<NDArrayRef> unknown;
    if (!std::ranges::all_of(n.inputs, is_known)) unknown = arrays_of(n.inputs);
    const int32_t own = add_named(n.call, std::move(values), unknown);
    const auto count = static_cast<int32_t>(graph_.node(own).outputs.size());
    for (int32_t k = 0; k < count; ++k) here[i].push_back({own, k});
  }
  return arrays_of(graph.outputs);
}

Graph Trace::finish(std::span<const NDArrayRef> outputs) {
  for (const NDArrayRef& a : outputs) graph_.outputs.push_back(value_of(a));
  remember();
  return std::move(graph_);
}

}  // namespace mxlite::graph
