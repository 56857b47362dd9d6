#include "cpp/graph/trace.h"

#include <algorithm>
#include <atomic>

namespace mxlite::graph {
namespace {
thread_local Trace* current_trace = nullptr;
std::atomic<uint64_t> num_traces{0};
}  // namespace

Trace::Trace(std::string name, Device device, bool training)
    : outer_(current_trace),
      serial_(++num_traces),
      device_(device),
      later_(std::make_shared<EndedTrace>()) {
  graph_.name = std::move(name);
  graph_.training = training;
  current_trace = this;
}

Trace::Trace(std::string name, PartOfCurrent)
    : outer_(current_trace), is_part_(true), serial_(++num_traces) {
  MX_ASSERT(outer_);
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
  } catch (const std::bad_alloc&) {  // its arrays cannot be used later, as those of a failed trace
  }
}

void Trace::remember() {
  // One of the holders is this trace: if it is the only one, the array is not used again.
  if (!later_ || later_->ended || later_.use_count() == 1) return;
  later_->graph = graph_;
  later_->owner = owner_;
  later_->ended = true;
}

Trace* Trace::current() { return current_trace; }

void Trace::fail_read(const NDArray& array, const char* what) {
  fail(ErrorKind::kError, what, ": the array of shape ", array.shape(),
       " has no data while a hybridized forward is traced; move the read out of forward, or call "
       "net.hybridize(False)");
}

void Trace::fail_outside(const OpSchema& op, int input) {
  fail(ErrorKind::kError, op.name, ": ", op.input_name(input),
       " was made while a hybridized forward was traced and has no data; return it from forward "
       "instead of keeping it");
}

NDArrayRef Trace::make_array(ValueId value) {
  return NDArray::traced(graph_.spec(value), device_, make_ref<TraceValue>(serial_, value, later_));
}

ValueId Trace::add_leaf(NodeKind kind, const TensorSpec& spec, const char* name, NDArrayRef value) {
  std::vector<int32_t>& list = kind == NodeKind::kInput ? graph_.inputs : graph_.parameters;
  Node node;
  node.kind = kind;
  node.outputs = {spec};
  node.index = static_cast<int>(list.size());
  node.name = str(name, node.index);
  node.value = std::move(value);
  graph_.nodes.push_back(std::move(node));
  list.push_back(static_cast<int32_t>(graph_.nodes.size() - 1));
  return {list.back(), 0};
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
  // Arrays that forward takes from elsewhere are leaves, too: behind the others.
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
  // Nodes before `value` in topological order; recursion could be as deep as the network.
  std::vector<ValueId> own(static_cast<size_t>(value.node) + 1);
  std::vector<uint8_t> needed(own.size());
  needed.back() = 1;
  for (size_t i = own.size(); i-- > 0;)
    if (needed[i])
      for (ValueId v : from->graph.nodes[i].inputs) needed[static_cast<size_t>(v.node)] = 1;
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
    check_mutation(*n.op, inputs);
    own[i] = graph_.add_op(*n.op, n.params, std::move(inputs), n.name);
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
                ": forward uses an array of shape ", array->shape(), " on ", array->device(),
                ", the inputs are on ", device_, "; copy one with as_in_context");
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

std::string Trace::name_of(const OpSchema& op, engine::Origin origin) const {
  if (scope_.whole) return scope_.text;
  std::string name =
      scope_.text.empty() ? str(op.name, graph_.nodes.size()) : str(scope_.text, '_', op.name);
  if (origin.file) name += str(" (", origin.file, ':', origin.line, ')');
  return name;
}

NDArrays Trace::record(const OpSchema& op, const ParamsRef& params,
                       std::span<const NDArrayRef> inputs, engine::Origin origin) {
  std::vector<ValueId> values;
  std::vector<TensorSpec> specs;
  bool known = true;
  for (const NDArrayRef& a : inputs) {
    values.push_back(value_of(a));
    specs.push_back(graph_.spec(values.back()));
    known &= specs.back().shape.is_known();
  }
  check_mutation(op, values);
  if (!known && op.complete) {
    op.complete(params.get(), specs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      complete(values[i], specs[i]);
      if (inputs[i]->is_traced()) inputs[i]->complete_spec(specs[i]);
    }
  }
  for (size_t i = 0; i < specs.size(); ++i)
    MX_CHECK_SHAPE(specs[i].shape.is_known(), op.name, ": the shape of ",
                   op.input_name(static_cast<int>(i)), " is not known: ", specs[i].shape,
                   "; give the layer its input size");
  const ValueId first = graph_.add_op(op, params, std::move(values), name_of(op, origin));
  NDArrays outputs;
  const size_t count = graph_.nodes[static_cast<size_t>(first.node)].outputs.size();
  for (size_t i = 0; i < count; ++i)
    outputs.push_back(make_array({first.node, static_cast<int32_t>(i)}));
  return outputs;
}

std::vector<NDArrayRef> Trace::inline_graph(const Graph& graph, std::span<const NDArrayRef> inputs,
                                            std::span<const NDArrayRef> parameters) {
  MX_ASSERT(inputs.size() == graph.inputs.size() && parameters.size() == graph.parameters.size());
  std::vector<int32_t> here(graph.nodes.size(), -1);  // operators
  std::vector<ValueId> leaves(graph.nodes.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    leaves[static_cast<size_t>(graph.inputs[i])] = value_of(inputs[i]);
  for (size_t i = 0; i < parameters.size(); ++i)
    leaves[static_cast<size_t>(graph.parameters[i])] = value_of(parameters[i]);
  const auto map = [&](ValueId v) {
    const auto at = static_cast<size_t>(v.node);
    return here[at] < 0 ? leaves[at] : ValueId{here[at], v.output};
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.kind != NodeKind::kOp) continue;
    std::vector<ValueId> values;
    for (ValueId v : n.inputs) values.push_back(map(v));
    check_mutation(*n.op, values);
    here[i] = graph_.add_op(*n.op, n.params, std::move(values), n.name).node;
  }
  std::vector<NDArrayRef> outputs;
  for (ValueId v : graph.outputs) outputs.push_back(make_array(map(v)));
  return outputs;
}

Graph Trace::finish(std::span<const NDArrayRef> outputs) {
  for (const NDArrayRef& a : outputs) graph_.outputs.push_back(value_of(a));
  remember();
  return std::move(graph_);
}

}  // namespace mxlite::graph
