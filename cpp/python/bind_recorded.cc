// The tape behind an array as a list of operators, from which autograd.get_symbol makes a symbol.
// Calls of hybridized blocks are expanded into their operators.
#include <pybind11/stl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpp/autograd/graph_node.h"
#include "cpp/autograd/op_node.h"
#include "cpp/python/bind.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

using autograd::ArrayInfo;
using autograd::GraphNode;
using autograd::OpNode;
using autograd::TapeNode;
using Value = std::pair<int, int>;  // listed node, output

class Reader {
 public:
  Value read(const ArrayInfo& head) {
    std::vector<const TapeNode*> order = reachable(head);
    // Inputs of a node were always recorded before it.
    std::sort(order.begin(), order.end(),
              [](const TapeNode* a, const TapeNode* b) { return a->sequence() < b->sequence(); });
    for (const TapeNode* node : order) add(*node);
    return value_of(&head);
  }
  const py::list& nodes() const { return nodes_; }

 private:
  static std::vector<const TapeNode*> reachable(const ArrayInfo& head) {
    std::vector<const TapeNode*> found;
    std::unordered_map<const TapeNode*, bool> seen;
    std::vector<const ArrayInfo*> pending{&head};
    while (!pending.empty()) {
      const TapeNode* node = pending.back()->node.get();
      pending.pop_back();
      if (!node || std::exchange(seen[node], true)) continue;
      found.push_back(node);
      for (const auto& input : node->inputs())
        if (input) pending.push_back(input.get());
    }
    return found;
  }

  int list(const std::string& op, const py::dict& attrs, const std::vector<Value>& inputs) {
    nodes_.append(py::make_tuple(op, attrs, inputs));
    return static_cast<int>(nodes_.size()) - 1;
  }
  Value variable() { return {list("", py::dict(), {}), 0}; }

  Value value_of(const ArrayInfo* info) {
    if (!info) return variable();  // a constant
    if (info->node) {
      return outputs_.at(info->node.get())[static_cast<size_t>(info->output)];
    }
    const auto [it, fresh] = variables_.try_emplace(info);
    if (fresh) it->second = variable();
    return it->second;
  }

  static py::dict texts(const OpSchema& op, const ParamsRef& params) {
    py::dict result;
    const std::vector<AttrValue> values = op.params_values(params.get());
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string text = attr_text(values[i]);
      if (op.params[i].required || text != op.params[i].default_text)
        result[py::str(op.params[i].name)] = text;
    }
    return result;
  }

  void add(const TapeNode& node) {
    MX_CHECK_KIND(!node.released, ErrorKind::kError, "get_symbol: the recorded call of ",
                  node.name(), " was freed by backward; use retain_graph=True");
    std::vector<Value> inputs;
    for (const auto& input : node.inputs()) inputs.push_back(value_of(input.get()));
    std::vector<Value>& outputs = outputs_[&node];
    if (const auto* op = dynamic_cast<const OpNode*>(&node)) {
      const int at = list(op->op().name, texts(op->op(), op->params()), inputs);
      for (size_t i = 0; i < node.output_specs().size(); ++i)
        outputs.emplace_back(at, static_cast<int>(i));
      return;
    }
    const auto* call = dynamic_cast<const GraphNode*>(&node);
    MX_CHECK_KIND(call && call->traced(), ErrorKind::kNotSupported, "get_symbol: ", node.name(),
                  " is a function written in Python and no operator");
    outputs = add_graph(*call->traced(), inputs);
  }

  std::vector<Value> add_graph(const graph::Graph& g, const std::vector<Value>& inputs) {
    std::vector<int> listed(g.nodes.size(), -1);
    std::vector<Value> replaced(g.nodes.size());
    for (size_t i = 0; i < g.inputs.size(); ++i)
      replaced[static_cast<size_t>(g.inputs[i])] = inputs[i];
    for (size_t i = 0; i < g.parameters.size(); ++i)
      replaced[static_cast<size_t>(g.parameters[i])] = inputs[g.inputs.size() + i];
    const auto value = [&](graph::ValueId v) -> Value {
      const int at = listed[static_cast<size_t>(v.node)];
      return at < 0 ? replaced[static_cast<size_t>(v.node)] : Value{at, v.output};
    };
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      const graph::Node& n = g.nodes[i];
      if (n.kind == graph::NodeKind::kConstant) replaced[i] = variable();
      if (n.kind != graph::NodeKind::kOp) continue;
      std::vector<Value> operands;
      for (graph::ValueId v : n.inputs) operands.push_back(value(v));
      listed[i] = list(n.op->name, texts(*n.op, n.params), operands);
    }
    std::vector<Value> outputs;
    for (graph::ValueId v : g.outputs) outputs.push_back(value(v));
    return outputs;
  }

  py::list nodes_;
  std::unordered_map<const TapeNode*, std::vector<Value>> outputs_;
  std::unordered_map<const ArrayInfo*, Value> variables_;
};

}  // namespace

void bind_recorded(py::module_& m) {
  m.def(
      "recorded_nodes",
      [](const NDArrayRef& array) {
        const ArrayInfo* info = autograd::info_of(*array);
        MX_CHECK_KIND(info, ErrorKind::kError, "get_symbol: the array of shape ", array->shape(),
                      " was not computed inside autograd.record()");
        Reader reader;
        const Value head = reader.read(*info);
        return py::make_tuple(reader.nodes(), head);
      },
      py::arg("array"),
      "The computation of an array: nodes as (operator or '' for a variable, parameters that are "
      "not the default as text, inputs as (node, output)), and the array's own (node, output).");
}

}  // namespace mxlite::python
