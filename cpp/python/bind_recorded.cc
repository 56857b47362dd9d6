// Creates symbols from the tape behind an array (autograd.get_symbol), and from a forward function
// that is traced again for export to a file.
#include <pybind11/stl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpp/autograd/graph_node.h"
#include "cpp/autograd/op_node.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/trace_function.h"
#include "cpp/symbol/from_graph.h"

namespace mxlite::python {
namespace {

using autograd::ArrayInfo;
using autograd::GraphNode;
using autograd::OpNode;
using autograd::TapeNode;
using symbol::NodeOutput;
using symbol::NodeOutputs;

// Converts the tape to symbol nodes. The call of a hybridized block becomes one node per operator.
class TapeReader {
 public:
  NodeOutput read(const ArrayInfo& head) {
    std::vector<const TapeNode*> order = reachable(head);
    // Every input of a node was recorded before the node.
    std::sort(order.begin(), order.end(),
              [](const TapeNode* a, const TapeNode* b) { return a->sequence() < b->sequence(); });
    for (const TapeNode* node : order) add(*node);
    return entry_of(&head);
  }

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

  NodeOutput variable() { return {symbol::make_variable(str("var", num_variables_++)), 0}; }
  std::string next_name() { return str("node_", num_calls_++); }

  NodeOutput entry_of(const ArrayInfo* info) {
    if (!info) return variable();  // an array without history is a constant
    if (info->node) return outputs_.at(info->node.get())[static_cast<size_t>(info->output)];
    const auto [it, fresh] = variables_.try_emplace(info);
    if (fresh) it->second = variable();
    return it->second;
  }

  void add(const TapeNode& node) {
    MX_CHECK_KIND(!node.released, ErrorKind::kError, "get_symbol: the recorded call of ",
                  node.name(), " was freed by backward; use retain_graph=True");
    NodeOutputs inputs;
    for (const auto& input : node.inputs()) inputs.push_back(entry_of(input.get()));
    NodeOutputs& outputs = outputs_[&node];
    if (const auto* op = dynamic_cast<const OpNode*>(&node)) {
      auto recorded = std::make_shared<graph::Call>();
      recorded->op = &op->op();
      recorded->params = op->params();
      const symbol::NodeRef made = symbol::node_of_run(recorded, std::move(inputs), next_name());
      for (size_t i = 0; i < node.output_specs().size(); ++i)
        outputs.push_back({made, static_cast<int>(i)});
      return;
    }
    const auto* call = dynamic_cast<const GraphNode*>(&node);
    MX_CHECK_KIND(call && call->traced(), ErrorKind::kNotSupported,
                  "get_symbol: all recorded calls must be of operators, got ", node.name(),
                  ", a function written in Python or a checkpoint");
    outputs = symbol::from_graph(
        *call->traced(), inputs,
        [this](const graph::Graph&, const graph::Node& n) {
          return n.kind == graph::NodeKind::kConstant ? variable().node->name() : next_name();
        },
        make_symbol_call);
  }

  std::unordered_map<const TapeNode*, NodeOutputs> outputs_;
  std::unordered_map<const ArrayInfo*, NodeOutput> variables_;
  int num_variables_ = 0, num_calls_ = 0;
};

py::list output_specs(const graph::Graph& g) {
  py::list specs;
  for (const graph::ValueId v : g.outputs) specs.append(spec_to_python(g.spec(v)));
  return specs;
}

// Returns the outputs, their specs, and the arrays that forward used although they were not
// arguments. The keys of these arrays are their names.
py::tuple trace_symbol(const py::function& trace, const std::string& name,
                       const py::object& context, const py::list& input_specs,
                       const py::object& parameters, NodeOutputs leaves, bool numpy) {
  graph::ArrayList arrays = arrays_from(parameters, "trace_symbol");
  std::vector<TensorSpec> inputs, specs;
  for (const py::handle spec : input_specs) inputs.push_back(spec_from_python(spec));
  for (const NDArrayRef& array : arrays) specs.push_back(array->spec());
  const graph::Traced traced =
      graph::trace_once(trace_function(trace.ptr()), name, device_from_python(context), false,
                        false, inputs, specs, numpy);
  const graph::Graph& g = traced.graph;
  std::set<std::string> taken;
  for (const NodeOutput& leaf : leaves) taken.insert(leaf.node->name());
  symbol::TraceNames names(std::move(taken));
  py::dict captured;
  for (size_t i = arrays.size(); i < g.parameters.size(); ++i) {
    const graph::Node& leaf = g.node(g.parameters[i]);
    const std::string captured_name =
        names.unique(str(name.empty() ? "" : name + "_", "captured", i - arrays.size()));
    const std::string shape = attr_text(leaf.value->shape());
    leaves.push_back(
        {symbol::make_variable(
             captured_name, {{"__shape__", shape}, {"__lr_mult__", "0.0"}, {"__wd_mult__", "0.0"}}),
         0});
    captured[py::str(captured_name)] = leaf.value;
  }
  const NodeOutputs heads = symbol::from_graph(g, leaves, std::ref(names), make_symbol_call);
  return py::make_tuple(heads, output_specs(g), captured);
}

// Traces a function of numpy-mode arrays and returns the specs of its outputs.
py::list traced_specs(const py::function& function, const py::object& context,
                      const py::object& inputs) {
  const Specs given = specs_from_python(inputs);
  const graph::Traced traced = graph::trace_once(
      trace_function(function.ptr()), "", device_from_python(context),
      /*training=*/false, /*recording=*/false, {given.begin(), given.end()}, {}, /*numpy=*/true);
  return output_specs(traced.graph);
}

}  // namespace

void bind_recorded(py::module_& m) {
  m.def(
      "recorded_entry",
      [](const NDArrayRef& array) {
        const ArrayInfo* info = autograd::info_of(*array);
        MX_CHECK_KIND(info, ErrorKind::kError, "get_symbol: the array of shape ", array->shape(),
                      " was not computed inside autograd.record()");
        return TapeReader().read(*info);
      },
      py::arg("array"), "The computation of an array as the tape has it: its node and output.");
  m.def("trace_symbol", &trace_symbol, py::arg("trace"), py::arg("name"), py::arg("context"),
        py::arg("inputs"), py::arg("parameters"), py::arg("leaves"), py::arg("numpy") = false,
        "Traces a forward for inference with inputs of these specs (shape, dtype); leaves are the "
        "variables for its inputs, then its parameters; numpy makes the traced arrays those of "
        "numpy mode. Returns the outputs, their specs, and by "
        "name the arrays that forward used without being handed them.");
  m.def("traced_specs", &traced_specs, py::arg("function"), py::arg("context"), py::arg("inputs"),
        "The specs (shape, dtype) of the outputs of function(arrays, []), which is traced on "
        "arrays of numpy mode with the given specs.");
}

}  // namespace mxlite::python
