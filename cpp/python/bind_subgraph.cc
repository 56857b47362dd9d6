// Subgraphs of symbols, and the control-flow nodes that call subgraphs.
#include <algorithm>

#include "cpp/python/bind.h"
#include "cpp/python/py_node.h"
#include "cpp/symbol/control_flow.h"

namespace mxlite::python {
namespace {

using symbol::CutSubgraph;
using symbol::NodeOutput;
using symbol::NodeOutputs;

// Returns a unique subgraph name and variables for the arguments of a function of symbols.
py::tuple new_subgraph(const std::string& name, int count) {
  const std::string unique = symbol::unique_subgraph_name(name);
  NodeOutputs arguments;
  for (int i = 0; i < count; ++i)
    arguments.push_back({symbol::make_variable(str(unique, "_arg", i)), 0});
  return py::make_tuple(unique, arguments);
}

CutSubgraph cut(const std::string& name, const NodeOutputs& arguments, const NodeOutputs& heads) {
  std::vector<symbol::NodeRef> variables;
  for (const NodeOutput& argument : arguments) variables.push_back(argument.node);
  return symbol::cut_subgraph(heads, std::move(variables), name);
}

std::vector<int> unused_arguments(const CutSubgraph& graph) {
  const std::vector<int> used = symbol::used_variables(graph.heads, graph.variables);
  std::vector<int> unused;
  for (int i = 0; i < static_cast<int>(graph.num_arguments); ++i)
    if (std::find(used.begin(), used.end(), i) == used.end()) unused.push_back(i);
  return unused;
}

// Creates a node with the name and attributes of the current scopes and returns its outputs.
NodeOutputs outputs_of(symbol::ControlFlowCall made) {
  ScopedNode scoped = scoped_node(made.call.file_op);
  made.call.name = std::move(scoped.name);
  made.call.attrs = std::move(scoped.attrs);
  const symbol::NodeRef node = symbol::make_node(
      std::make_shared<const symbol::Call>(std::move(made.call)), std::move(made.inputs));
  NodeOutputs outputs;
  for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back({node, i});
  return outputs;
}

}  // namespace

void bind_subgraph(py::module_& m) {
  py::class_<CutSubgraph>(m, "Subgraph", "The graph of a function of symbols.")
      .def(py::init(&cut), py::arg("name"), py::arg("arguments"), py::arg("heads"),
           "What the function made, marked with the name; other values become imports.")
      .def_property_readonly("unused_arguments", &unused_arguments,
                             "Numbers of the arguments that no output needs.");
  m.def("new_subgraph", &new_subgraph, py::arg("name"), py::arg("count"),
        "A name that no other subgraph has, and variables for the arguments of its function.");
  m.def(
      "foreach_outputs",
      [](const CutSubgraph& body, const NodeOutputs& data, const NodeOutputs& states) {
        return outputs_of(symbol::make_foreach(body, data, states));
      },
      py::arg("body"), py::arg("data"), py::arg("states"),
      "The outputs of a node that calls a subgraph on each slice of data.");
  m.def(
      "while_loop_outputs",
      [](const CutSubgraph& condition, const CutSubgraph& body, const NodeOutputs& variables,
         int64_t max_iterations) {
        return outputs_of(symbol::make_while_loop(condition, body, variables, max_iterations));
      },
      py::arg("condition"), py::arg("body"), py::arg("variables"), py::arg("max_iterations"),
      "The outputs of a node that calls a subgraph while another one holds.");
  m.def(
      "cond_outputs",
      [](const NodeOutput& predicate, const CutSubgraph& then, const CutSubgraph& otherwise) {
        return outputs_of(symbol::make_cond(predicate, then, otherwise));
      },
      py::arg("predicate"), py::arg("then"), py::arg("otherwise"),
      "The outputs of a node that calls one of two subgraphs.");
}

}  // namespace mxlite::python
