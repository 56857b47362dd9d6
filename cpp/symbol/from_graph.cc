#include "cpp/symbol/from_graph.h"

#include "cpp/graph/host_op.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/control_flow.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/names.h"

namespace mxlite::symbol {
namespace {

bool is_number(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

Attributes texts_of(const OpSchema& op, const ParamsRef& params) {
  Attributes attrs;
  const std::vector<AttrValue> values = op.params_values(params.get());
  for (size_t i = 0; i < values.size(); ++i) {
    const ParamInfo& param = op.params[i];
    std::string text = attr_text(values[i]);
    // Omits a dtype of None (the default), because 1.x uses the default only if the dtype is
    // missing.
    const bool is_default = std::holds_alternative<std::monostate>(values[i]) &&
                            dtype_from_name(param.default_text).has_value();
    if (param.required || (text != param.default_text && !is_default))
      attrs[param.name] = std::move(text);
  }
  return attrs;
}

// Returns the form of a host operator. Returns nullopt for other operators and for calls that come
// from symbols.
std::optional<graph::HostOpForm> form_of(const Call& call) {
  const graph::HostOp* host = call.file_op.empty() ? call.host() : nullptr;
  return host ? host->form() : std::nullopt;
}

// Creates a subgraph of a host operator that has the given inputs.
Subgraph subgraph_of(const graph::HostOpForm::CalledGraph& part, const NodeOutputs& inputs,
                     std::string name, const MakeCall& make_call) {
  graph::Graph body = *part.graph;
  body.name = std::move(name);
  TraceNames names({});
  Subgraph graph;
  NodeOutputs variables;
  for (const int i : part.inputs) {
    const NodeOutput& outside = inputs[static_cast<size_t>(i)];
    graph.variables.push_back(
        make_variable(names.unique(outside.node->output_name(outside.output))));
    variables.push_back({graph.variables.back(), 0});
  }
  graph.heads = from_graph(body, variables, std::ref(names), make_call);
  graph.inputs = part.inputs;
  return graph;
}

// Creates the call of a loop or a branch in a traced forward. As in 1.x, each value that the graphs
// of the call import becomes one input of the node.
ControlFlowCall control_flow_of_form(const std::string& op, const graph::HostOpForm& form,
                                     const NodeOutputs& inputs, const std::string& name,
                                     const MakeCall& make_call) {
  const bool is_branch = form.num_variables == 0;
  const size_t first = is_branch ? 1 : static_cast<size_t>(form.num_variables);
  NodeInputs given;
  std::vector<int> places;  // for each input of the operator: the input of the node
  for (size_t i = 0; i < inputs.size(); ++i)
    places.push_back(i < first ? given.variable(static_cast<int>(i), inputs[i])
                               : given.import(inputs[i]));
  std::vector<Subgraph> graphs;
  for (const graph::HostOpForm::CalledGraph& part : form.parts) {
    graphs.push_back(subgraph_of(part, inputs, str(name, "_part", graphs.size()), make_call));
    for (int& input : graphs.back().inputs) input = places[static_cast<size_t>(input)];
  }
  MX_ASSERT(graphs.size() == 2);
  const size_t count = given.size();
  IntrusivePtr<const ControlFlow> flow;
  if (is_branch)
    flow = make_ref<const Branch>(std::move(graphs[0]), std::move(graphs[1]), count);
  else
    flow = make_ref<const WhileLoop>(std::move(graphs[0]), std::move(graphs[1]), count, first,
                                     form.max_iterations);
  return call_of(op.c_str(), std::move(flow), given.take());
}

// Creates the node of a loop, a branch or a Python operator in a traced forward.
NodeRef node_of_form(const Call& call, const graph::HostOpForm& form, NodeOutputs inputs,
                     std::string name, const MakeCall& make_call) {
  const std::string& op = call.op->name;
  ControlFlowCall made = form.parts.empty()
                             ? ControlFlowCall{make_call(op, form.attrs), std::move(inputs)}
                             : control_flow_of_form(op, form, inputs, name, make_call);
  made.call.name = {std::move(name), call.name.origin};
  return make_node(std::make_shared<const Call>(std::move(made.call)), std::move(made.inputs));
}

[[noreturn]] void refuse(const Call& call) {
  const std::string& origin = call.name.origin;
  fail(ErrorKind::kNotSupported, origin, origin.empty() ? "" : ": ", "the operator ", call.op->name,
       " has no form in symbol files");
}

std::string own_name(const graph::Graph&, const graph::Node& node) { return node.name().text; }

}  // namespace

NodeRef node_of_run(const CallRef& call, NodeOutputs inputs, std::string name) {
  if (!call->file_op.empty() && call->name.text == name) return make_node(call, std::move(inputs));
  Call made = *call;
  if (call->file_op.empty()) {
    if (call->host()) refuse(*call);
    const std::string file_op = file_name(call->op->name);
    const OpSchema& written = ops().get(engine_name(file_op));
    if (written.internal) refuse(*call);
    Attributes attrs = texts_of(*call->op, call->params);
    if (call->op->variadic) {
      const std::string& count = written.symbol_traits(file_op).count_attribute;
      if (!count.empty()) attrs[count] = std::to_string(inputs.size());
    }
    made = make_call(file_op, std::move(attrs));
  }
  made.name = {std::move(name), call->name.origin};
  return make_node(std::make_shared<const Call>(std::move(made)), std::move(inputs));
}

std::string TraceNames::unique(const std::string& name) {
  std::string found = name;
  for (int i = 1; !taken_.insert(found).second; ++i) found = str(name, '_', i);
  return found;
}

std::string TraceNames::operator()(const graph::Graph& graph, const graph::Node& node) {
  std::string text = node.name().text;
  if (!node.call->file_op.empty()) return unique(text);
  const std::string& op = node.op()->name;
  // If the trace has made a name from operator and position (relu3), the graph's name replaces it.
  if (text.starts_with(op) && is_number(std::string_view(text).substr(op.size())))
    text = graph.name;
  else if (text.ends_with("_" + op))
    text.resize(text.size() - op.size() - 1);
  else
    return unique(text);  // the user has given this name
  const bool is_host = node.call->host() != nullptr;
  const std::string kind = hint(is_host ? op.substr(op.find_first_not_of('_')) : file_name(op));
  const std::string base = text.empty() ? kind : str(text, '_', kind);
  return unique(str(base, counts_[base]++));
}

NodeOutputs from_graph(const graph::Graph& graph, std::span<const NodeOutput> leaves,
                       const NodeName& name, const MakeCall& make_call) {
  MX_ASSERT(leaves.size() == graph.inputs.size() + graph.parameters.size());
  std::vector<NodeOutput> found(graph.nodes.size());  // per node; output 0 for an operator
  for (size_t i = 0; i < leaves.size(); ++i) {
    const size_t inputs = graph.inputs.size();
    found[static_cast<size_t>(i < inputs ? graph.inputs[i] : graph.parameters[i - inputs])] =
        leaves[i];
  }
  const auto entry = [&](graph::ValueId v) -> NodeOutput {
    const NodeOutput& at = found[static_cast<size_t>(v.node)];
    return graph.node(v).kind == graph::NodeKind::kOp ? NodeOutput{at.node, v.output} : at;
  };
  // Skips unused operators, because files may not support them.
  const std::vector<uint8_t> needed = graph::find_needed(graph, graph.outputs);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& n = graph.nodes[i];
    if (!needed[i]) continue;
    if (n.kind == graph::NodeKind::kConstant) found[i] = {make_variable(name(graph, n)), 0};
    if (n.kind != graph::NodeKind::kOp) continue;
    NodeOutputs inputs;
    for (const graph::ValueId v : n.inputs) inputs.push_back(entry(v));
    const std::optional<graph::HostOpForm> form = form_of(*n.call);
    found[i] = {form ? node_of_form(*n.call, *form, std::move(inputs), name(graph, n), make_call)
                     : node_of_run(n.call, std::move(inputs), name(graph, n)),
                0};
  }
  NodeOutputs outputs;
  for (const graph::ValueId v : graph.outputs) outputs.push_back(entry(v));
  return outputs;
}

NodeOutputs from_graph(const graph::Graph& graph) {
  NodeOutputs leaves;
  for (const int32_t id : graph.inputs) leaves.push_back({make_node(graph.node(id).call, {}), 0});
  return from_graph(graph, leaves, own_name, {});
}

NodeOutputs with_leaves(const NodeOutputs& heads,
                        const std::function<NodeOutput(const NodeRef&)>& leaf) {
  const Listing listing(heads);
  NodeOutputs leaves;
  for (const int32_t id : listing.graph.inputs)
    leaves.push_back(leaf(listing.nodes[static_cast<size_t>(id)]));
  return from_graph(listing.graph, leaves, own_name, {});
}

NodeOutputs substituted(const NodeOutputs& heads,
                        const std::map<std::string, NodeOutput>& replaced) {
  return with_leaves(heads, [&](const NodeRef& variable) {
    const auto found = replaced.find(variable->name());
    return found == replaced.end() ? NodeOutput{variable->moved({}), 0} : found->second;
  });
}

}  // namespace mxlite::symbol
