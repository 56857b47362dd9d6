// Sorts the arguments of an operator's call into inputs, parameters and out=, according to the
// operator's schema.
#pragma once
#include <algorithm>
#include <string>
#include <unordered_map>

#include "cpp/base/suggest.h"
#include "cpp/ops/op_schema.h"
#include "cpp/python/convert.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_symbol.h"

namespace mxlite::python {

inline constexpr size_t kMaxParams = 48;

struct OpObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OpSchema* op;
  const std::string* alias;  // the operator name that the caller used
  bool takes_inputs;
  bool composes;  // whether calls without operands create nodes, as in mx.sym
  // Maps an interned keyword to i for input i, or to -1 - i for parameter i.
  const std::unordered_map<PyObject*, int>* keywords;
  int ctx_param;    // index of the parameter named ctx, or -1
  int shape_param;  // index of the parameter named shape if the operator has no inputs, or -1
};

inline const OpObject& object_of(PyObject* self) { return *reinterpret_cast<OpObject*>(self); }

inline std::unordered_map<PyObject*, int>::const_iterator find_keyword(const OpObject& object,
                                                                       PyObject* key) {
  const auto it = object.keywords->find(key);
  if (it != object.keywords->end() || !PyUnicode_CheckExact(key)) return it;
  // Keywords of **kwargs may not be interned yet.
  Py_INCREF(key);
  PyUnicode_InternInPlace(&key);
  const auto again = object.keywords->find(key);
  Py_DECREF(key);
  return again;
}

// The arguments of one call, sorted into inputs, parameters and out=.
struct OpArguments {
  explicit OpArguments(const OpObject& o, bool with_sparse = false)
      : object(o), op(*o.op), takes_sparse(with_sparse) {}

  bool is_operand(PyObject* o) const { return is_array(o) || (takes_sparse && is_sparse_array(o)); }

  void add_positional(PyObject* o) {
    if (!in_params &&
        (op.variadic ? is_operand(o) && !listed
                     : (is_operand(o) || o == Py_None) && next_input < op.inputs.size())) {
      set_input(next_input++, o);
      return;
    }
    if (is_symbol(o)) {
      symbolic = true;
      return;
    }
    if (is_sparse_array(o) && !takes_sparse) {
      sparse = true;
      return;
    }
    if (!in_params && (PyList_Check(o) || PyTuple_Check(o)) && op.variadic && next_input == 0) {
      py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(o, ""));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
        symbolic |= is_symbol(item);
        if (symbolic) return;
        sparse |= !takes_sparse && is_sparse_array(item);
        if (sparse) return;
        if (!is_operand(item)) fail_input(next_input, item);
        set_input(next_input++, item);
      }
      listed = true;
      return;
    }
    if (!in_params && (op.variadic ? !listed : next_input < op.inputs.size())) {
      // Optional inputs before positional parameters may be omitted, but required inputs may not.
      if (next_input == 0 || op.variadic || op.params.empty() || !op.input_count)
        fail_input(next_input, o);
      skipped = o;
    }
    if (skipped && is_operand(o)) fail_input(next_input, skipped);
    in_params = true;
    if (next_param >= op.params.size()) {
      if (next_input < op.inputs.size()) fail_input(next_input, o);
      if (!op.variadic && next_trailing < 2) {
        set_trailing(next_trailing++, o);
        return;
      }
      fail(ErrorKind::kType, op.name, "() takes at most ", op.inputs.size() + op.params.size(),
           " positional arguments", op.variadic ? "" : ", then out and name");
    }
    try {
      set_param(next_param++, o);
    } catch (const Error&) {
      fail_skipped();
      throw;
    }
  }

  // As in MXNet 1.x, out and name may be passed as positional arguments after inputs and
  // parameters.
  void set_trailing(int i, PyObject* o) {
    if (i == 0)
      set_out(o);
    else
      MX_CHECK_KIND(o == Py_None || PyUnicode_Check(o), ErrorKind::kType, op.name,
                    "() takes at most ", op.inputs.size() + op.params.size(),
                    " positional arguments, then out and name; name must be a string or None, got ",
                    Py_TYPE(o)->tp_name);
  }

  void add_keyword(PyObject* key, PyObject* o) {
    const auto it = find_keyword(object, key);
    if (it != object.keywords->end()) {
      if (it->second < 0)
        set_param(static_cast<size_t>(-1 - it->second), o);
      else if (op.variadic)
        add_positional(o);
      else
        set_input(static_cast<size_t>(it->second), o);
      return;
    }
    const std::string name = py::cast<std::string>(py::handle(key));
    if (name == "out") {
      set_out(o);
    } else if (name == "ctx" || name == "device") {
      if (o != Py_None) device = device_from_python(o);
    } else if (op.variadic && name == "num_args") {  // the number of variadic inputs in 1.x
    } else if (name != "name" && name != "attr" && name != "stype") {
      if (!op.params.empty() || op.variadic || is_any_array(o) || is_symbol(o)) fail_keyword(name);
      warn_keyword(name);
    }
  }

  void set_input(size_t i, PyObject* o) {
    if (o != Py_None && !is_operand(o)) {
      symbolic |= is_symbol(o);
      if (symbolic) return;
      sparse |= is_sparse_array(o);
      if (sparse) return;
      fail_input(i, o);
    }
    if (inputs.size() <= i) inputs.resize(i + 1);
    if (o != Py_None) inputs[i] = array_of(o);
  }
  AttrValue& value(size_t i) {
    if (values.empty()) values.resize(op.params.size());
    return values[i];
  }
  void set_param(size_t i, PyObject* o) {
    if (static_cast<int>(i) == object.ctx_param && o == Py_None) return;
    value(i) = attr_from_python(o, op.name, op.params[i].name);
    // None keeps the default unless the parameter accepts None, as in MXNet 1.x.
    if (o == Py_None && op.params[i].python_type.find("None") == std::string::npos) return;
    given |= uint64_t{1} << i;
  }
  void set_out(PyObject* o) {
    if (o == Py_None) return;
    if (is_operand(o)) {
      out.push_back(array_of(o));
      return;
    }
    if (is_sparse_array(o)) {
      sparse = true;
      return;
    }
    MX_CHECK_KIND(PyList_Check(o) || PyTuple_Check(o), ErrorKind::kType, op.name,
                  ": out must be an NDArray or a list of NDArrays, got ", Py_TYPE(o)->tp_name);
    py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(o, "out"));
    if (!fast) throw py::error_already_set();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
      sparse |= !takes_sparse && is_sparse_array(item);
      if (sparse) return;
      MX_CHECK_KIND(is_operand(item), ErrorKind::kType, op.name,
                    ": out must be a list of NDArrays, got an element of type ",
                    Py_TYPE(item)->tp_name);
      out.push_back(array_of(item));
    }
  }

  [[noreturn]] void fail_input(size_t i, PyObject* o) const {
    fail(ErrorKind::kType, op.name, ": ", op.input_name(static_cast<int>(i)),
         " must be an NDArray or a Symbol, got ", Py_TYPE(o)->tp_name);
  }
  // If a value is not valid for any parameter, assumes that the user has passed it as the optional
  // input at this position.
  void fail_skipped() const {
    if (skipped) fail_input(next_input, skipped);
  }
  // Ignores keywords of an operator that has no parameters, like MXNet 1.x.
  void warn_keyword(const std::string& name) const {
    const std::string text =
        op.name + ": '" + name + "' is ignored, the operator has no parameters";
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw py::error_already_set();
  }
  [[noreturn]] void fail_keyword(const std::string& name) const {
    std::vector<std::string> names = op.inputs;
    for (const ParamInfo& p : op.params) names.push_back(p.name);
    fail(ErrorKind::kType, op.name, "() got an unexpected keyword argument '", name, "'",
         did_you_mean(name, names));
  }

  // Takes a missing shape from out=, like MXNet 1.x.
  void take_shape_of_out() {
    if (object.shape_param < 0 || out.empty()) return;
    const auto i = static_cast<size_t>(object.shape_param);
    if ((given >> i & 1) && !std::holds_alternative<std::monostate>(value(i))) return;
    value(i) = out[0]->shape();
    given |= uint64_t{1} << i;
  }

  ParamsRef make_params() {
    if (given == 0 && op.default_params) return op.default_params;
    if (values.empty()) values.resize(op.params.size());
    try {
      return op.make_params(values, given);
    } catch (const Error&) {
      fail_skipped();
      throw;
    }
  }

  // Removes omitted optional inputs at the end and checks the number of inputs.
  void check_inputs(const void* params) {
    while (!inputs.empty() && !inputs.back()) inputs.pop_back();
    const size_t wanted =
        op.variadic ? inputs.size() : static_cast<size_t>(op.count_inputs(params));
    // Removes an omitted optional input before an input that is given (CTCLoss with label_lengths
    // only).
    if (inputs.size() > wanted) {
      auto given_inputs = std::remove(inputs.begin(), inputs.end(), nullptr);
      inputs.erase(given_inputs, inputs.end());
    }
    MX_CHECK_KIND(!op.variadic || !inputs.empty(), ErrorKind::kType, op.name,
                  "() needs at least one array");
    for (size_t i = 0; i < wanted; ++i)
      MX_CHECK_KIND(i < inputs.size() && inputs[i], ErrorKind::kType, op.name,
                    "() missing required input '", op.input_name(static_cast<int>(i)), "'");
    MX_CHECK_KIND(inputs.size() <= wanted, ErrorKind::kType, op.name,
                  ": the number of arrays must be at most ", wanted, " with these parameters, got ",
                  inputs.size());
  }

  // out= must list the visible outputs, or all outputs including hidden outputs.
  void check_out(const void* params) const {
    if (out.empty()) return;
    const int n = static_cast<int>(inputs.size());
    const auto visible = static_cast<size_t>(op.count_visible_outputs(params, n));
    MX_CHECK_KIND(
        out.size() == visible || out.size() == static_cast<size_t>(op.count_outputs(params, n)),
        ErrorKind::kType, op.name, ": out must have ", visible, " arrays, got ", out.size());
  }

  const OpObject& object;
  const OpSchema& op;
  const bool takes_sparse;  // if false, sorting stops at the first sparse array and sets `sparse`
  SmallVector<NDArrayRef, 6> inputs;
  SmallVector<NDArrayRef, 1> out;
  SmallVector<AttrValue, 8> values;  // one value per parameter; empty until a parameter is given
  uint64_t given = 0;
  size_t next_input = 0, next_param = 0;
  int next_trailing = 0;
  bool listed = false;  // whether the inputs of a variadic operator were passed as one list
  bool in_params = false;
  PyObject* skipped = nullptr;  // value at the position of an optional input that was used as a
                                // parameter
  bool symbolic = false;  // whether a Symbol is among the inputs, so that the call makes a node
  bool sparse = false;    // whether a sparse array is among the arguments, so that sparse
                          // code handles the call
  Device device = current_device();
};

}  // namespace mxlite::python
