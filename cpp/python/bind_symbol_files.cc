// Symbols as text, and nodes that Python runs: loops, branches, operators written in Python.
#include "cpp/python/bind.h"
#include "cpp/python/errors.h"
#include "cpp/python/py_node.h"
#include "cpp/symbol/files.h"
#include "cpp/symbol/from_graph.h"

namespace mxlite::python {
namespace {

struct LoopHooks {
  py::object load, save, traced;
};
LoopHooks& loop_hooks() {
  static auto* made = new LoopHooks;
  return *made;
}

symbol::FileHooks file_hooks(bool np_shape) {
  symbol::FileHooks hooks;
  hooks.np_shape = np_shape;
  hooks.make_call = make_symbol_call;
  hooks.load_loop = [](const std::string& op, const symbol::Attributes& attrs,
                       const symbol::Entries& inputs,
                       const std::vector<symbol::LoadedGraph>& graphs, const std::string& label) {
    py::list parts;
    for (const symbol::LoadedGraph& graph : graphs)
      parts.append(py::make_tuple(graph.heads, graph.variables));
    const auto found = loop_hooks().load(op, attrs, inputs, parts, label).cast<py::tuple>();
    symbol::LoopParts loop{call_from_python(op, found[0]), found[1].cast<symbol::Entries>()};
    loop.call.attrs = found[2].cast<symbol::Attributes>();
    return loop;
  };
  hooks.save_loop = [](const symbol::NodeRef& node) {
    const auto found = loop_hooks().save(node).cast<py::tuple>();
    return symbol::SavedLoop{found[0].cast<symbol::Attributes>(),
                             found[1].cast<std::vector<symbol::Entries>>()};
  };
  return hooks;
}

symbol::Entries load(const std::string& text, const std::string& source, bool np_shape) {
  try {
    return symbol::load(text, source, file_hooks(np_shape));
  } catch (const symbol::FileError& error) {
    const py::object type = py::module_::import("mxlite.base").attr("FileFormatError");
    set_exception(type, error.what());
    throw py::error_already_set();
  }
}

}  // namespace

symbol::NodeRef node_of_host_op(const symbol::Call& call, const graph::HostOpForm& form,
                                symbol::Entries inputs, std::string name) {
  const std::string& op = call.op->name;
  symbol::Call made;
  if (form.parts.empty()) {
    made = make_symbol_call(op, form.attrs);
  } else {
    py::list graphs;
    for (const graph::HostOpForm::Part& part : form.parts) {
      graph::Graph body = *part.graph;
      body.name = str(name, "_part", graphs.size());
      symbol::TraceNames names({});
      symbol::Entries variables;
      py::list nodes;
      for (const int i : part.inputs) {
        const symbol::Entry& outside = inputs[static_cast<size_t>(i)];
        const std::string label = names.unique(outside.node->output_name(outside.output));
        variables.push_back({symbol::make_variable(label), 0});
        nodes.append(variables.back().node);
      }
      graphs.append(
          py::make_tuple(symbol::from_graph(body, variables, std::ref(names), node_of_host_op),
                         nodes, part.inputs));
    }
    const auto found =
        loop_hooks().traced(op, form.attrs, inputs, graphs, form.num_variables).cast<py::tuple>();
    made = call_from_python(op, found[0]);
    inputs = found[1].cast<symbol::Entries>();
  }
  made.name = {std::move(name), call.name.origin};
  return symbol::make_node(std::make_shared<const symbol::Call>(std::move(made)),
                           std::move(inputs));
}

void bind_symbol_files(py::module_& m) {
  m.def("symbol_from_json", &load, py::arg("text"), py::arg("source"), py::arg("np_shape"),
        "The outputs of a graph as 1.x files have it; source names the file in errors.");
  m.def(
      "symbol_to_json",
      [](const symbol::Entries& heads, bool remove_amp_cast, bool np_shape) {
        return symbol::to_json(heads, remove_amp_cast, file_hooks(np_shape));
      },
      py::arg("heads"), py::arg("remove_amp_cast"), py::arg("np_shape"),
      "What 1.9.1 writes for a graph, character by character.");
  m.def(
      "set_loop_files",
      [](py::object load, py::object save, py::object traced) {
        loop_hooks() = {std::move(load), std::move(save), std::move(traced)};
      },
      py::arg("load"), py::arg("save"), py::arg("traced"),
      "load(op, attrs, inputs, graphs, label) gives (call, inputs, attrs) of a loop or branch, "
      "save(node) its (attrs, graphs), traced(op, attrs, inputs, graphs, count) the (call, inputs) "
      "of one that ran in a forward.");
}

}  // namespace mxlite::python
