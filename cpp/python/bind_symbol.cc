// Symbols: operators with parameters, nodes, and lists of outputs.
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/errors.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/py_symbol.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/from_graph.h"
#include "cpp/symbol/names.h"
#include "cpp/symbol/passes/passes.h"
#include "cpp/symbol/run.h"

namespace mxlite::python {

PyTypeObject* symbol_type = nullptr;
PyTypeObject* numpy_symbol_type = nullptr;

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
using symbol::Call;
using symbol::Node;
using symbol::NodeOutputs;
using symbol::NodeRef;

// -- calls -------------------------------------------------------------------------------------

// Returns the device in the call's parameter `ctx`, or nullopt if the call has no such parameter.
std::optional<Device> asked_device(const Call& call) {
  const int at = call.op->param_index("ctx");
  if (at < 0) return std::nullopt;
  const std::string text =
      attr_to_string(call.op->params_values(call.params.get())[static_cast<size_t>(at)]);
  return text.empty() ? std::nullopt : std::optional(parse_device(text));
}

py::dict params_of(const Call& call) {
  py::dict result;
  const std::vector<AttrValue> values = call.op->params_values(call.params.get());
  for (size_t i = 0; i < values.size(); ++i)
    result[py::str(call.op->params[i].name)] = attr_to_python(values[i]);
  return result;
}

void bind_call(py::module_& m) {
  py::class_<Call, std::shared_ptr<Call>>(m, "OpCall",
                                          "An operator with its parameters, given as text by name.")
      .def(py::init([](const std::string& name, const Attributes& texts) {
             auto call = std::make_shared<Call>();
             call->op = &ops().get_public(name);
             std::vector<std::pair<std::string_view, AttrValue>> params;
             for (const auto& [key, text] : texts) params.emplace_back(key, text);
             call->params = call->op->make_params_by_name(params);
             asked_device(*call);  // throws if the device does not exist
             return call;
           }),
           py::arg("name"), py::arg("attrs"))
      .def_property_readonly("name", [](const Call& self) { return self.op->name; })
      .def_property_readonly(
          "constant_output", [](const Call& self) { return self.op->symbol.constant_output; },
          "Returns whether backward ignores the shape of the gradient of the output.")
      .def_property_readonly(
          "eager", [](const Call& self) { return self.op->storage.chooses_storage; },
          "Whether executors run it outside of compiled graphs.")
      .def_property_readonly("params", &params_of, "All parameters as Python values.")
      .def("input_name", &Call::argument, py::arg("index"))
      .def(
          "infer",
          [](const Call& self, const py::list& inputs) {
            const Specs specs = specs_from_python(inputs);
            const Specs outputs = self.infer({specs.data(), specs.size()});
            return specs_to_python({outputs.data(), outputs.size()});
          },
          py::arg("inputs"), "Specs (shape, dtype) of all outputs.")
      .def(
          "run",
          [](const std::shared_ptr<Call>& self, const std::vector<NDArrayRef>& inputs) {
            return run_call(self, inputs);
          },
          py::arg("inputs"), "The visible outputs as a list.");
}

void bind_host_call(py::module_& m) {
  py::class_<HostCall>(m, "HostCall", "A loop or a branch with its subgraphs.")
      .def(
          "input_name", [](const HostCall& self, int index) { return self.call->argument(index); },
          py::arg("index"))
      .def(
          "run",
          [](const HostCall& self, const std::vector<NDArrayRef>& inputs) {
            const NDArrays outputs = self.call->host()->call(inputs);
            return std::vector<NDArrayRef>(outputs.begin(), outputs.end());
          },
          py::arg("inputs"), "The outputs as a list.");
}

// -- nodes -------------------------------------------------------------------------------------

py::dict& python_calls() {  // factories of PythonCall objects; keys: operator names in files
  static auto* calls = new py::dict;
  return *calls;
}

NodeRef node_from_python(const std::optional<std::string>& op, std::string name, Attributes attrs,
                         NodeOutputs inputs, const py::object& call, std::string origin) {
  if (!op) return symbol::make_variable(std::move(name), std::move(attrs));
  Call made = call.is_none() ? make_symbol_call(*op, attrs) : call_from_python(*op, call);
  made.name = {std::move(name), std::move(origin)};
  made.attrs = std::move(attrs);
  return symbol::make_node(std::make_shared<const Call>(std::move(made)), std::move(inputs));
}

std::optional<std::string> attribute(const Node& node, const std::string& key) {
  const auto found = node.call->attrs.find(key);
  return found == node.call->attrs.end() ? std::nullopt : std::optional(found->second);
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
            return self.is_variable() ? std::nullopt : std::optional(self.op());
          },
          "The operator's name in 1.x files.")
      .def_property("name", &Node::name,
                    [](Node& self, const std::string& name) {
                      self.edit([&](Call& call) { call.name.text = name; });
                    })
      .def_property_readonly(
          "origin", [](const Node& self) { return self.call->name.origin; },
          "The user's line that composed the node.")
      .def_property_readonly(
          "label", [](const Node& self) { return self.call->name.label(); },
          "Name and line, for errors: fc1 (train.py:12)")
      .def_property_readonly(
          "attrs", [](const Node& self) { return self.call->attrs; },
          "A copy: parameters as text, and attributes such as __lr_mult__.")
      .def("attr", &attribute, py::arg("key"), "An attribute, or None.")
      .def(
          "set_attr",
          [](Node& self, const std::string& key, const std::string& value) {
            self.edit([&](Call& call) {
              call.attrs[key] = value;
              const int at = call.op && !call.host() ? call.op->param_index(key) : -1;
              if (at < 0) return;
              std::vector<AttrValue> values = call.op->params_values(call.params.get());
              values[static_cast<size_t>(at)] = value;
              call.params = call.op->make_params(values, (uint64_t{1} << values.size()) - 1);
            });
          },
          py::arg("key"), py::arg("value"),
          "Set an attribute; one that is a parameter of the operator changes the call, too.")
      .def_property_readonly(
          "inputs", [](const Node& self) { return self.inputs; },
          "Producers and which of their outputs.")
      .def_property_readonly(
          "call", [](const Node& self) { return call_to_python(self.call); },
          "The operator with parsed parameters; None for a variable.")
      .def_property_readonly("num_outputs", &Node::num_outputs, "That a user sees.")
      .def("moved", &Node::moved, py::arg("inputs"), "A copy with other inputs.")
      .def(
          "input_name",
          [](const Node& self, int index) {
            return self.call->input_name(index, self.num_inputs());
          },
          py::arg("index"), "fc1_weight, relu0_input0")
      .def("output_name", &Node::output_name, py::arg("index"),
           "fc1_output, bn0_mean, split0_output1")
      .def("__eq__",
           [](const Node& self, const py::object& other) {
             return py::isinstance<Node>(other) && &self == &other.cast<const Node&>();
           })
      .def("__hash__", [](const Node& self) { return reinterpret_cast<size_t>(&self) >> 4; })
      .def("__repr__", [](const Node& self) {
        return str("<Node ", self.is_variable() ? "variable" : self.op(), " ", self.name(), ">");
      });
  m.def("topological_order", &symbol::topological_order, py::arg("heads"),
        "All nodes that heads need, inputs before their users, in 1.x's order.");
  m.def(
      "symbol_variables",
      [](const NodeOutputs& heads) {
        const symbol::Variables found = symbol::variables_of(symbol::topological_order(heads));
        return py::make_tuple(found.all, found.is_state);
      },
      py::arg("heads"), "The variables, and which of them operators write.");
  using symbol::Quantization;
  py::class_<Quantization>(m, "Quantization", "How passes over symbols quantize a network.")
      .def(py::init([](std::string dtype, bool smart, bool channel_wise, bool calibrated,
                       std::set<std::string> without, std::set<std::string> parameters,
                       std::map<std::string, std::pair<float, float>> ranges) {
             return Quantization{std::move(dtype),   smart,
                                 channel_wise,       calibrated,
                                 std::move(without), std::move(parameters),
                                 std::move(ranges)};
           }),
           py::kw_only(), py::arg("dtype") = "int8", py::arg("smart") = false,
           py::arg("channel_wise") = false, py::arg("calibrated") = false,
           py::arg("without") = std::set<std::string>(),
           py::arg("parameters") = std::set<std::string>(),
           py::arg("ranges") = std::map<std::string, std::pair<float, float>>());
  m.def(
      "run_symbol_pass",
      [](const std::string& name, const NodeOutputs& heads,
         const std::optional<std::shared_ptr<amp::Rules>>& precision, std::set<std::string> kept,
         const std::optional<symbol::Quantization>& quantization) {
        symbol::PassOptions options{.precision = precision.value_or(nullptr),
                                    .kept = std::move(kept)};
        if (quantization)
          options.quantization = std::make_shared<const symbol::Quantization>(*quantization);
        return symbol::run_pass(name, heads, options);
      },
      py::arg("name"), py::arg("heads"), py::arg("precision") = py::none(),
      py::arg("kept") = std::set<std::string>(), py::arg("quantization") = py::none(),
      "A new symbol by a pass of cpp/symbol/passes; kept: names of nodes that it leaves as they "
      "are.");
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

NDArrays run_with_hidden_outputs(const symbol::CallRef& call,
                                 const std::vector<NDArrayRef>& inputs) {
  const Device device =
      inputs.empty() ? asked_device(*call).value_or(current_device()) : inputs[0]->device();
  return symbol::run_operator(call, inputs, device, current_origin());
}

py::list run_call(const symbol::CallRef& call, const std::vector<NDArrayRef>& inputs) {
  NDArrays outputs = run_with_hidden_outputs(call, inputs);
  const auto visible = static_cast<size_t>(call->num_outputs(static_cast<int>(inputs.size())));
  py::list result(std::min(visible, outputs.size()));
  for (size_t i = 0; i < py::len(result); ++i)
    PyList_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), wrap_array(std::move(outputs[i])));
  return result;
}

bool is_python_call(const std::string& op) { return python_calls().contains(py::str(op)); }

Call make_symbol_call(const std::string& op, const Attributes& attrs) {
  if (!is_python_call(op)) return symbol::make_call(op, attrs);
  try {
    Call call = call_from_python(op, python_calls()[py::str(op)](attrs));
    call.attrs = attrs;
    return call;
  } catch (py::error_already_set& raised) {
    rethrow_as_error(raised);
  }
}

void bind_symbol(py::module_& m) {
  bind_call(m);
  bind_host_call(m);
  bind_node(m);
  bind_inference(m);
  bind_compose(m);
  bind_evaluate(m);
  bind_subgraph(m);
  bind_symbol_files(m);
  m.def(
      "set_symbol_type",
      [](const py::type& type) {
        symbol_type = reinterpret_cast<PyTypeObject*>(py::object(type).release().ptr());
      },
      py::arg("type"), "Operators called on instances of type make nodes.");
  m.def(
      "set_numpy_symbol_type",
      [](const py::type& type) {
        numpy_symbol_type = reinterpret_cast<PyTypeObject*>(py::object(type).release().ptr());
      },
      py::arg("type"),
      "Compose objects of this subclass of the symbols' type if an input is an object of it.");
  m.def("user_line", &user_line, "The line outside mxlite that is running: 'train.py:12'.");
}

}  // namespace mxlite::python
