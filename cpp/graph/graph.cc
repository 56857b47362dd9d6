#include "cpp/graph/graph.h"

#include <sstream>

#include "cpp/ops/invoke.h"

namespace mxlite::graph {

ValueId Graph::add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs_of_op,
                      std::string node_name) {
  std::vector<TensorSpec> specs;
  for (ValueId v : inputs_of_op) specs.push_back(spec(v));
  const Specs out = infer_outputs(op, params.get(), specs);
  Node node;
  node.op = &op;
  node.params = std::move(params);
  node.inputs = std::move(inputs_of_op);
  node.outputs.assign(out.begin(), out.end());
  node.name = node_name.empty() ? str(op.name, nodes.size()) : std::move(node_name);
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size() - 1), 0};
}

ValueId Graph::add_op(std::string_view op_name, std::vector<ValueId> inputs_of_op, Attrs attrs,
                      std::string node_name) {
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
      out << n.op->name << '(';
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        out << (k ? ", %" : "%") << n.inputs[k].node;
        if (n.inputs[k].output) out << '.' << n.inputs[k].output;
      }
      const std::vector<AttrValue> values = n.op->params_values(n.params.get());
      for (size_t k = 0; k < values.size(); ++k)
        if (attr_text(values[k]) != n.op->params[k].default_text)
          out << ", " << n.op->params[k].name << '=' << attr_text(values[k]);
      out << ')';
      for (const PostOp& p : n.post_ops) out << " + " << p.op->name;
    }
    out << " :";
    for (const TensorSpec& s : n.outputs) out << ' ' << s;
    out << "  # " << n.name << '\n';
  }
  out << "return";
  for (ValueId v : outputs) {
    out << " %" << v.node;
    if (v.output) out << '.' << v.output;
  }
  out << '\n';
  return out.str();
}

}  // namespace mxlite::graph
