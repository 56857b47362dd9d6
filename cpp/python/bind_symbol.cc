// Symbols: operators with parameters, nodes, and lists of outputs.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/ops/amp.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/errors.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/py_symbol.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/names.h"

namespace mxlite::python {

PyTypeObject* symbol_type = nullptr;

PyObject* compose_symbol(const std::string& alias, PyObject* const* args, size_t nargs,
                         PyObject* keywords) {
  py::tuple positional(nargs);
  for (size_t i = 0; i < nargs; ++i) positional[i] = py::handle(args[i]);
  py::dict named;
  for (Py_ssize_t k = 0, n = keywords ? PyTuple_GET_SIZE(keywords) : 0; k < n; ++k)
    named[py::handle(PyTuple_GET_ITEM(keywords, k))] =
        py::handle(args[nargs + static_cast<size_t>(k)]);
  return compose(alias, positional, named).release().ptr();
}

namespace {

using symbol::Attributes;
using symbol::Entries;
using symbol::Entry;
using symbol::Node;
using symbol::NodeRef;
using symbol::OpCall;

// -- calls -------------------------------------------------------------------------------------

// The device that the parameter ctx names.
std::optional<Device> asked_device(const OpCall& call) {
  const int at = call.op().param_index("ctx");
  if (at < 0) return std::nullopt;
  const std::string text =
      attr_to_string(call.op().params_values(call.params())[static_cast<size_t>(at)]);
  return text.empty() ? std::nullopt : std::optional(parse_device(text));
}

py::dict params_of(const OpCall& call) {
  py::dict result;
  const std::vector<AttrValue> values = call.op().params_values(call.params());
  for (size_t i = 0; i < values.size(); ++i)
    result[py::str(call.op().params[i].name)] = attr_to_python(values[i]);
  return result;
}

void bind_call(py::module_& m) {
  py::class_<OpCall, std::shared_ptr<OpCall>>(
      m, "OpCall", "An operator with its parameters, given as text by name.")
      .def(py::init([](const std::string& name, const py::dict& attrs) {
             OpCall::Texts texts;
             for (const auto& [key, text] : attrs)
               texts.emplace_back(key.cast<std::string>(), text.cast<std::string>());
             auto call = std::make_shared<OpCall>(name, texts);
             asked_device(*call);  // a device that does not exist is an error here
             return call;
           }),
           py::arg("name"), py::arg("attrs"))
      .def_property_readonly("name", [](const OpCall& self) { return self.op().name; })
      .def_property_readonly(
          "constant_output",
          [](const OpCall& self) { return self.traits(self.op().name).constant_output; },
          "Returns whether backward ignores the shape of the gradient of the output.")
      .def_property_readonly(
          "eager", [](const OpCall& self) { return self.op().storage.chooses_storage; },
          "Whether executors run it outside of compiled graphs.")
      .def_property_readonly("params", &params_of, "All parameters as Python values.")
      .def("input_name", &OpCall::input_name, py::arg("index"))
      .def("mutated", &OpCall::written, py::arg("num_inputs"),
           "Inputs that the operator writes: running statistics, momentum.")
      .def(
          "infer",
          [](const OpCall& self, const py::list& inputs) {
            const Specs specs = specs_from_python(inputs);
            const Specs outputs = self.infer({specs.data(), specs.size()});
            return specs_to_python({outputs.data(), outputs.size()});
          },
          py::arg("inputs"), "Specs (shape, dtype) of all outputs.")
      .def("run", &run_call, py::arg("inputs"), "The visible outputs as a list.");
}

// -- nodes -------------------------------------------------------------------------------------

py::dict& python_calls() {  // makers of calls that Python runs, by the operator's name in files
  static auto* calls = new py::dict;
  return *calls;
}

NodeRef node_from_python(const std::optional<std::string>& op, std::string name, Attributes attrs,
                         Entries inputs, const py::object& call, std::string origin) {
  if (!op) return symbol::make_variable(std::move(name), std::move(attrs));
  symbol::CallRef made = call.is_none() ? make_symbol_call(*op, attrs) : call_from_python(call);
  return symbol::make_node(*op, std::move(name), std::move(attrs), std::move(inputs),
                           std::move(made), std::move(origin));
}

std::optional<std::string> attribute(const Node& node, const std::string& key) {
  const auto found = node.attrs.find(key);
  return found == node.attrs.end() ? std::nullopt : std::optional(found->second);
}

void bind_node(py::module_& m) {
  py::class_<Node, NodeRef>(m, "Node", "A variable (op is None) or one call of an operator.")
      .def(py::init(&node_from_python), py::arg("op").none(true), py::arg("name"), py::arg("attrs"),
           py::arg("inputs"), py::arg("call") = py::none(), py::arg("origin") = "",
           "Parameters are parsed from the attributes where no call is given; origin is the user's "
           "line that composed the node.")
      .def_property_readonly(
          "op",
          [](const Node& self) {
            return self.is_variable() ? std::nullopt : std::optional(self.op);
          },
          "The operator's name in 1.x files.")
      .def_readwrite("name", &Node::name)
      .def_readonly("origin", &Node::origin, "The user's line that composed the node.")
      .def_property_readonly("label", &Node::label, "Name and line, for errors: fc1 (train.py:12)")
      .def_property_readonly(
          "attrs", [](const Node& self) { return self.attrs; },
          "A copy: parameters as text, and attributes such as __lr_mult__.")
      .def("attr", &attribute, py::arg("key"), "An attribute, or None.")
      .def(
          "set_attr",
          [](Node& self, const std::string& key, std::string value) {
            self.attrs[key] = std::move(value);
          },
          py::arg("key"), py::arg("value"))
      .def_property_readonly(
          "inputs", [](const Node& self) { return self.inputs; },
          "Producers and which of their outputs.")
      .def_property_readonly(
          "call", [](const Node& self) { return call_to_python(self.call); },
          "The operator with parsed parameters; None for a variable.")
      .def_property_readonly("num_outputs", &Node::num_outputs, "That a user sees.")
      .def("moved", &Node::moved, py::arg("inputs"), "A copy with other inputs.")
      .def("input_name", &Node::input_name, py::arg("index"), "fc1_weight, relu0_input0")
      .def("output_name", &Node::output_name, py::arg("index"),
           "fc1_output, bn0_mean, split0_output1")
      .def("mutated_inputs", &Node::states, "Positions of the inputs that are auxiliary states.")
      .def("__eq__",
           [](const Node& self, const py::object& other) {
             return py::isinstance<Node>(other) && &self == &other.cast<const Node&>();
           })
      .def("__hash__", [](const Node& self) { return reinterpret_cast<size_t>(&self) >> 4; })
      .def("__repr__", [](const Node& self) {
        return str("<Node ", self.is_variable() ? "variable" : self.op, " ", self.name, ">");
      });
  m.def("topological_order", &symbol::topological_order, py::arg("heads"),
        "All nodes that heads need, inputs before their users, in 1.x's order.");
  m.def(
      "symbol_variables",
      [](const Entries& heads) {
        const symbol::Variables found = symbol::variables_of(symbol::topological_order(heads));
        return py::make_tuple(found.all, found.is_state);
      },
      py::arg("heads"), "The variables, and which of them operators write.");
  m.def("substituted", &symbol::substituted, py::arg("heads"), py::arg("replaced"),
        "A copy of the graph with variables replaced by entries.");
  m.def("weight_names", &symbol::weight_names, py::arg("heads"),
        "Variables that operators use only as weights, and auxiliary states.");
  m.def("symbol_looked_up", &symbol::looked_up, py::arg("heads"),
        "Variables that operators look rows up in, by name, and whether their gradients shall have "
        "only those rows.");
  m.def("symbol_engine_name", &symbol::engine_name, py::arg("op"),
        "The name by which the engine knows an operator of a file.");
  m.def(
      "register_symbol_call",
      [](const std::string& op, const py::object& maker) { python_calls()[py::str(op)] = maker; },
      py::arg("op"), py::arg("maker"), "Calls of op are maker(attrs), an object that Python runs.");
}

}  // namespace

std::string user_line() {
  const engine::Origin line = current_origin();
  return line.file ? str(line.file, ':', line.line) : std::string();
}

NDArrays visible_outputs(const OpCall& call, const std::vector<NDArrayRef>& inputs) {
  const Device device =
      inputs.empty() ? asked_device(call).value_or(current_device()) : inputs[0]->device();
  const amp::Pause no_amp;  // a symbol has its casts as nodes
  NDArrays outputs = autograd::call(call.op(), call.params_ref(), inputs,
                                    {.device = device, .out = {}, .origin = current_origin()});
  while (static_cast<int>(outputs.size()) > call.num_visible(static_cast<int>(inputs.size())))
    outputs.pop_back();
  return outputs;
}

py::list run_call(const OpCall& call, const std::vector<NDArrayRef>& inputs) {
  NDArrays outputs = visible_outputs(call, inputs);
  py::list result(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    PyList_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), wrap_array(std::move(outputs[i])));
  return result;
}

symbol::CallRef make_symbol_call(const std::string& op, const Attributes& attrs) {
  const py::str name(op);
  if (!python_calls().contains(name)) return symbol::make_op_call(op, attrs);
  try {
    return std::make_shared<PythonCall>(python_calls()[name](attrs));
  } catch (py::error_already_set& raised) {
    rethrow_as_error(raised);
  }
}

void bind_symbol(py::module_& m) {
  bind_call(m);
  bind_node(m);
  bind_inference(m);
  bind_compose(m);
  bind_evaluate(m);
  bind_symbol_files(m);
  m.def(
      "set_symbol_type",
      [](const py::type& type) {
        symbol_type = reinterpret_cast<PyTypeObject*>(py::object(type).release().ptr());
      },
      py::arg("type"), "Operators called on instances of type make nodes.");
  m.def("user_line", &user_line, "The line outside mxlite that is running: 'train.py:12'.");
}

}  // namespace mxlite::python
