// What mx.sym needs of the core: an operator with parsed parameters that tells how many arrays it
// takes and gives, infers their shapes, and runs. The graph of symbols itself is Python's.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/ops/amp.h"
#include "cpp/ops/call_checks.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_symbol.h"

namespace mxlite::python {

PyTypeObject* symbol_type = nullptr;
PyObject* compose_function = nullptr;

PyObject* compose_symbol(PyObject* op, PyObject* const* args, size_t nargs, PyObject* keywords) {
  py::tuple positional(nargs);
  for (size_t i = 0; i < nargs; ++i) positional[i] = py::handle(args[i]);
  py::dict named;
  for (Py_ssize_t k = 0, n = keywords ? PyTuple_GET_SIZE(keywords) : 0; k < n; ++k)
    named[py::handle(PyTuple_GET_ITEM(keywords, k))] =
        py::handle(args[nargs + static_cast<size_t>(k)]);
  return py::handle(compose_function)(py::handle(op), positional, named).release().ptr();
}

namespace {

// Dimensions of -1 are unknown, and so is a shape of None.
TensorSpec spec_from_python(py::handle spec) {
  const py::tuple pair = py::cast<py::tuple>(spec);
  TensorSpec result;
  result.shape =
      pair[0].is_none() ? Shape::unknown() : shape_from_python(pair[0], "shape inference");
  result.dtype = require_dtype(pair[1], "shape inference");
  return result;
}

py::tuple spec_to_python(const TensorSpec& spec) {
  py::object shape = py::none();
  if (spec.shape.ndim() >= 0) shape = shape_to_python(spec.shape);
  return py::make_tuple(shape, dtype_name(spec.dtype));
}

class OpCall {
 public:
  OpCall(const std::string& name, const py::dict& attrs) : op_(ops().get_public(name)) {
    std::vector<std::string> texts;
    for (const auto& item : attrs) texts.push_back(py::cast<std::string>(item.first));
    std::vector<std::pair<std::string_view, AttrValue>> values;
    size_t i = 0;
    for (const auto& item : attrs)
      values.emplace_back(texts[i++], py::cast<std::string>(item.second));
    params_ = op_.make_params_by_name(values);
    const int ctx = op_.param_index("ctx");
    if (ctx >= 0) {
      const std::string text =
          attr_to_string(op_.params_values(params_.get())[static_cast<size_t>(ctx)]);
      if (!text.empty()) device_ = parse_device(text);
    }
  }

  const std::string& name() const { return op_.name; }
  bool variadic() const { return op_.variadic; }
  bool completes() const { return op_.complete != nullptr; }
  bool pointwise() const { return op_.pointwise; }
  int num_inputs() const { return op_.variadic ? -1 : op_.count_inputs(params_.get()); }
  int num_outputs(int n) const { return op_.count_outputs(params_.get(), n); }
  int num_visible(int n) const { return op_.count_visible_outputs(params_.get(), n); }
  std::string input_name(int i) const { return op_.input_name(i); }
  std::vector<int> mutated(int num_inputs) const {
    std::vector<int> result;
    for (int i = 0; i < num_inputs; ++i)
      if (op_.mutates(i, /*training=*/true)) result.push_back(i);
    return result;
  }
  py::dict params() const {
    py::dict result;
    const std::vector<AttrValue> values = op_.params_values(params_.get());
    for (size_t i = 0; i < values.size(); ++i)
      result[py::str(op_.params[i].name)] = attr_to_python(values[i]);
    return result;
  }

  py::list complete(const py::list& inputs) const {
    std::vector<TensorSpec> specs = specs_of(inputs);
    check_input_count(op_, params_.get(), specs.size());
    if (op_.complete) op_.complete(params_.get(), specs);
    py::list result;
    for (const TensorSpec& s : specs) result.append(spec_to_python(s));
    return result;
  }
  py::list infer(const py::list& inputs) const {
    py::list result;
    for (const TensorSpec& s : infer_outputs(op_, params_.get(), specs_of(inputs)))
      result.append(spec_to_python(s));
    return result;
  }
  py::list run(const std::vector<NDArrayRef>& inputs) const {
    Device device = device_.value_or(current_device());
    if (!inputs.empty()) device = inputs[0]->device();
    const amp::Pause as_given;  // a symbol has its casts as nodes
    NDArrays outputs = autograd::call(op_, params_, inputs,
                                      {.device = device, .out = {}, .origin = current_origin()});
    const int visible = op_.count_visible_outputs(params_.get(), static_cast<int>(inputs.size()));
    py::list result(static_cast<size_t>(visible));
    for (int i = 0; i < visible; ++i)
      PyList_SET_ITEM(result.ptr(), i, wrap_array(std::move(outputs[static_cast<size_t>(i)])));
    return result;
  }

 private:
  static std::vector<TensorSpec> specs_of(const py::list& inputs) {
    std::vector<TensorSpec> specs;
    for (const py::handle s : inputs) specs.push_back(spec_from_python(s));
    return specs;
  }

  const OpSchema& op_;
  ParamsRef params_;
  std::optional<Device> device_;
};

}  // namespace

void bind_symbol(py::module_& m) {
  py::class_<OpCall>(m, "OpCall", "An operator with its parameters, given as text by name.")
      .def(py::init<const std::string&, const py::dict&>(), py::arg("name"), py::arg("attrs"))
      .def_property_readonly("name", &OpCall::name)
      .def_property_readonly("variadic", &OpCall::variadic)
      .def_property_readonly("completes", &OpCall::completes, "Can it tell shapes of weights?")
      .def_property_readonly("pointwise", &OpCall::pointwise)
      .def_property_readonly("num_inputs", &OpCall::num_inputs, "-1: any number.")
      .def_property_readonly("params", &OpCall::params, "All parameters as Python values.")
      .def("num_outputs", &OpCall::num_outputs, py::arg("num_inputs"), "Hidden ones too.")
      .def("num_visible", &OpCall::num_visible, py::arg("num_inputs"))
      .def("input_name", &OpCall::input_name, py::arg("index"))
      .def("mutated", &OpCall::mutated, py::arg("num_inputs"),
           "Inputs that the operator writes: running statistics, momentum.")
      .def("complete", &OpCall::complete, py::arg("inputs"),
           "Input specs (shape with -1 or None for unknown, dtype) with weights filled in.")
      .def("infer", &OpCall::infer, py::arg("inputs"), "Specs of all outputs.")
      .def("run", &OpCall::run, py::arg("inputs"), "The visible outputs as a list.");
  m.def(
      "set_symbol_type",
      [](const py::type& type, const py::function& compose) {
        symbol_type = reinterpret_cast<PyTypeObject*>(py::object(type).release().ptr());
        compose_function = py::object(compose).release().ptr();
      },
      py::arg("type"), py::arg("compose"),
      "Operators called on instances of type return compose(op, args, kwargs).");
  m.def(
      "user_line",
      [] {
        const engine::Origin line = current_origin();
        return line.file ? str(line.file, ':', line.line) : std::string();
      },
      "The line outside mxlite that is running: 'train.py:12'.");
}

}  // namespace mxlite::python
