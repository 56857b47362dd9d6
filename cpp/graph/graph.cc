#include "cpp/graph/graph.h"

#include <sstream>

#include "cpp/ops/invoke.h"

namespace mxlite::graph {

ValueId Graph::add_leaf(NodeKind kind, const TensorSpec& spec, NodeName node_name,
                        NDArrayRef value) {
  const auto id = static_cast<int32_t>(nodes.size());
  auto call = std::make_shared<Call>();
  call->name = std::move(node_name);
  Node node;
  node.kind = kind;
  node.call = std::move(call);
  node.outputs = {spec};
  node.value = std::move(value);
  if (kind != NodeKind::kConstant) {
    std::vector<int32_t>& list = kind == NodeKind::kInput ? inputs : parameters;
    node.index = static_cast<int>(list.size());
    list.push_back(id);
  }
  nodes.push_back(std::move(node));
  return {id, 0};
}

ValueId Graph::add_op(CallRef call, std::vector<ValueId> inputs_of_op) {
  std::vector<TensorSpec> specs;
  for (ValueId v : inputs_of_op) specs.push_back(spec(v));
  const Specs out = infer_outputs(*call->op, call->params.get(), specs);
  Node node;
  node.call = std::move(call);
  node.inputs = std::move(inputs_of_op);
  node.outputs.assign(out.begin(), out.end());
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size() - 1), 0};
}

ValueId Graph::add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs_of_op,
                      NodeName node_name) {
  auto call = std::make_shared<Call>();
  call->op = &op;
  call->params = std::move(params);
  call->name = std::move(node_name);
  if (call->name.text.empty()) call->name.text = str(op.name, nodes.size());
  return add_op(std::move(call), std::move(inputs_of_op));
}

ValueId Graph::add_op(std::string_view op_name, std::vector<ValueId> inputs_of_op, Attrs attrs,
                      NodeName node_name) {
  const OpSchema& op = ops().get(op_name);
  return add_op(op, op.make_params_by_name(std::span(attrs.begin(), attrs.size())),
                std::move(inputs_of_op), std::move(node_name));
}

std::string Graph::text() const {
  std::ostringstream out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = nodes[i];
    out << '%' << i << " = ";
    if (n.kind == NodeKind::kInput) {
      out << "input " << n.index;
    } else if (n.kind == NodeKind::kParameter) {
      out << "parameter " << n.index << (n.value ? " (captured)" : "");
    } else if (n.kind == NodeKind::kConstant) {
      out << "constant";
    } else {
      const OpSchema& op = *n.op();
      out << op.name << '(';
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        out << (k ? ", %" : "%") << n.inputs[k].node;
        if (n.inputs[k].output) out << '.' << n.inputs[k].output;
      }
      const std::vector<AttrValue> values = op.params_values(n.params().get());
      for (size_t k = 0; k < values.size(); ++k)
        if (attr_text(values[k]) != op.params[k].default_text)
          out << ", " << op.params[k].name << '=' << attr_text(values[k]);
      out << ')';
      for (const PostOp& p : n.post_ops) out << " + " << p.op->name;
    }
    out << " :";
    for (const TensorSpec& s : n.outputs) out << ' ' << s;
    out << "  # " << n.name().label() << '\n';
  }
  out << "return";
  for (ValueId v : outputs) {
    out << " %" << v.node;
    if (v.output) out << '.' << v.output;
  }
  out << '\n';
  return out.str();
}

std::vector<uint8_t> find_needed(const Graph& graph, std::span<const ValueId> values) {
  std::vector<uint8_t> needed(graph.nodes.size());
  for (ValueId v : values) needed[static_cast<size_t>(v.node)] = 1;
  for (size_t i = graph.nodes.size(); i-- > 0;)
    if (needed[i])
      for (ValueId v : graph.nodes[i].inputs) needed[static_cast<size_t>(v.node)] = 1;
  return needed;
}

}  // namespace mxlite::graph
