#include "cpp/graph/graph.h"

#include <sstream>

#include "cpp/ops/invoke.h"

namespace mxlite::graph {

ValueId Graph::add_op(const OpSchema& op, ParamsRef params, std::vector<ValueId> inputs,
                      std::string name) {
  std::vector<TensorSpec> specs;
  for (ValueId v : inputs) specs.push_back(spec(v));
  const Specs out = infer_outputs(op, params.get(), specs);
  Node node;
  node.op = &op;
  node.params = std::move(params);
  node.inputs = std::move(inputs);
  node.outputs.assign(out.begin(), out.end());
  node.name = name.empty() ? str(op.name, nodes.size()) : std::move(name);
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size() - 1), 0};
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
