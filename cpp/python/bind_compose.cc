// Calls of operators on symbols. Sorts the Python arguments into inputs and parameters.
#include <algorithm>

#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/py_symbol.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/names.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::python {

using symbol::NodeOutput;
using symbol::NodeOutputs;

namespace {

// Python functions that return a new node's name and the scoped attributes.
struct Scopes {
  py::object name, attrs;
};
Scopes& scopes() {
  static auto* made = new Scopes;
  return *made;
}

struct NumPyClasses {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object scalar = numpy.attr("generic"), array = numpy.attr("ndarray"),
                   dtype = numpy.attr("dtype");
};
const NumPyClasses& numpy_classes() {
  static const auto* made = new NumPyClasses;
  return *made;
}

bool is_tensor(py::handle value) { return is_symbol(value.ptr()) || is_any_array(value.ptr()); }

std::string type_name(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>();
}

// Returns a parameter's value in the spelling of MXNet 1.x's symbol files, such as (3, 3), True or
// float32.
std::string text_of(py::handle value) {
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (PyType_Check(value.ptr()) || py::isinstance(value, numpy_classes().dtype))
    return dtype_name(require_dtype(value, "parameter"));
  if (py::isinstance(value, numpy_classes().scalar)) return text_of(value.attr("item")());
  const bool is_list = py::isinstance<py::list>(value);
  if (is_list || py::isinstance<py::tuple>(value) || py::isinstance(value, numpy_classes().array)) {
    std::string text;
    size_t count = 0;
    for (const py::handle item : value) text.append(count++ ? ", " : "").append(text_of(item));
    if (is_list) return str("[", text, "]");
    return str("(", text, count == 1 ? ",)" : ")");
  }
  if (PyIndex_Check(value.ptr()) && !PyLong_Check(value.ptr())) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!number) throw py::error_already_set();
    return text_of(number);
  }
  return py::str(value).cast<std::string>();
}

[[noreturn]] void throw_unexpected(const std::string& alias, const std::string& key,
                                   const std::vector<std::string>& known) {
  const py::object suggestion = py::module_::import("mxlite.base").attr("suggestion");
  fail(ErrorKind::kType, alias, "() got an unexpected keyword argument '", key, "'",
       known.empty() ? "" : suggestion(key, known).cast<std::string>());
}

class Arguments {
 public:
  explicit Arguments(const std::string& alias)
      : file_op_(symbol::file_name(alias)), op_(ops().get_public(symbol::engine_name(file_op_))) {
    given_.alias = alias;
  }

  void positional(py::handle value) {
    const bool tensor = value.is_none() || is_tensor(value);
    if (op_.variadic && is_spread(value)) {
      for (const py::handle part : value) {
        input(next_input_, part, str("input ", next_input_));
        ++next_input_;
      }
    } else if (tensor && next_param_ == 0 &&
               (op_.variadic || next_input_ < static_cast<int>(op_.inputs.size()))) {
      if (!value.is_none())
        input(next_input_, value,
              op_.variadic ? str("input ", next_input_)
                           : op_.inputs[static_cast<size_t>(next_input_)]);
      ++next_input_;
    } else {
      const bool takes_inputs = op_.variadic || !op_.inputs.empty();
      if (takes_inputs && next_input_ == 0) fail_input(value, op_.input_name(0));
      MX_CHECK_KIND(next_param_ < op_.params.size(), ErrorKind::kType, given_.alias,
                    "() takes at most ", op_.inputs.size() + op_.params.size(),
                    " positional arguments");
      param(static_cast<int>(next_param_), value);
      ++next_param_;
    }
  }

  void keyword(const std::string& key, py::handle value) {
    const bool hidden = key.size() > 4 && key.starts_with("__") && key.ends_with("__");
    const auto input_at = std::find(op_.inputs.begin(), op_.inputs.end(), key);
    if (const int at = op_.param_index(key); at >= 0) {
      param(at, value);
    } else if (op_.variadic && is_tensor(value) && !is_numbered(key) &&
               op_.symbol_traits(file_op_).named_inputs) {
      by_name_.emplace_back(key, py::reinterpret_borrow<py::object>(value));
    } else if (op_.variadic && is_numbered(key)) {
      input(std::stoi(key.substr(3)), value, key);
    } else if (input_at != op_.inputs.end()) {
      if (op_.variadic)
        positional(value);
      else if (!value.is_none())
        input(static_cast<int>(input_at - op_.inputs.begin()), value, key);
    } else if (hidden || (op_.variadic && key == symbol::count_attribute(op_, file_op_))) {
      given_.attrs[key] = text_of(value);
    } else if (symbol::is_hidden_key(key)) {
      given_.attrs[symbol::hidden_key(key)] = text_of(value);
    } else if (key == "ctx" || key == "device") {
      if (!value.is_none() && op_.param_index("ctx") >= 0) given_.attrs["ctx"] = text_of(value);
    } else if (key == "out" || key == "stype") {
      return;
    } else if (op_.params.empty() && !op_.variadic && !is_tensor(value)) {
      // MXNet 1.x ignores the keywords of an operator that has no parameters.
      const std::string text =
          str(given_.alias, ": '", key, "' is ignored, the operator has no parameters");
      if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) < 0) throw py::error_already_set();
    } else {
      std::vector<std::string> known = op_.inputs;
      for (const ParamInfo& info : op_.params) known.push_back(info.name);
      throw_unexpected(given_.alias, key, known);
    }
  }

  // Assigns inputs that were passed by name. Must be called last, because input names depend on
  // parameters.
  void place_named() {
    if (by_name_.empty()) return;
    const std::vector<std::string> names = symbol::named_inputs(op_, file_op_, given_.attrs);
    for (const auto& [key, value] : by_name_) {
      const auto at = std::find(names.begin(), names.end(), key);
      if (at != names.end())
        input(static_cast<int>(at - names.begin()), value, key);
      else if (std::find(op_.inputs.begin(), op_.inputs.end(), key) != op_.inputs.end())
        positional(value);
      else
        throw_unexpected(given_.alias, key, {});
    }
  }

  // Returns whether the operands are arrays. Throws if the call has both arrays and symbols.
  bool on_arrays() const {
    MX_CHECK_KIND(!has_arrays_ || given_.inputs.empty(), ErrorKind::kType, given_.alias,
                  ": inputs must all be Symbols or all NDArrays, got both");
    return has_arrays_;
  }
  bool has_numpy() const { return has_numpy_; }  // whether an input is a symbol of numpy mode
  symbol::Given& given() { return given_; }

 private:
  static bool is_numbered(const std::string& key) {
    return key.size() > 3 && key.size() < 10 && key.starts_with("arg") &&
           std::all_of(key.begin() + 3, key.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  // Returns whether the value represents several inputs. Such values are lists, tuples and symbols
  // with several outputs.
  bool is_spread(py::handle value) const {
    if (is_symbol(value.ptr())) return py::len(value.attr("_outputs")) > 1;
    return next_input_ == 0 &&
           (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value));
  }

  void input(int index, py::handle value, const std::string& label) {
    if (is_any_array(value.ptr())) {
      has_arrays_ = true;
      return;
    }
    if (!is_symbol(value.ptr())) fail_input(value, label);
    has_numpy_ |= is_numpy_symbol(value.ptr());
    const NodeOutputs entries = value.attr("_outputs").cast<NodeOutputs>();
    MX_CHECK_KIND(entries.size() == 1, ErrorKind::kType, given_.alias, ": ", label,
                  " must be a symbol with one output, got a group of ", entries.size(),
                  "; index the symbol");
    given_.inputs[index] = entries[0];
  }

  [[noreturn]] void fail_input(py::handle value, const std::string& label) const {
    fail(ErrorKind::kType, given_.alias, ": ", label, " must be an NDArray or a Symbol, got ",
         type_name(value));
  }

  void param(int at, py::handle value) {
    const ParamInfo& info = op_.params[static_cast<size_t>(at)];
    // None keeps the default, except for parameters that accept None and have another default.
    if (value.is_none() &&
        (info.python_type.find("None") == std::string::npos || info.default_text == "None"))
      return;
    given_.attrs[info.name] = text_of(value);
  }

  std::string file_op_;
  const OpSchema& op_;
  symbol::Given given_;
  int next_input_ = 0;
  size_t next_param_ = 0;
  bool has_arrays_ = false, has_numpy_ = false;
  std::vector<std::pair<std::string, py::object>> by_name_;  // inputs by name, until place_named()
                                                             // assigns them
};

// Returns the attributes of the current scope merged with the call's `attr` argument.
symbol::Attributes scoped_attrs(py::handle given) {
  symbol::Attributes attrs;
  for (const auto& [key, value] : scopes().attrs(given).cast<py::dict>())
    attrs[symbol::hidden_key(key.cast<std::string>())] = value.cast<std::string>();
  return attrs;
}

void cast_inputs(symbol::Node& node) {
  symbol::cast_inputs(node, [](const std::string& op) {
    return scopes().name(py::none(), op).cast<std::string>();
  });
}

}  // namespace

ScopedNode scoped_node(const std::string& hint) {
  const auto name = scopes().name(py::none(), hint).cast<std::string>();
  return {{name, user_line()}, scoped_attrs(py::none())};
}

py::object compose(const std::string& alias, const py::tuple& args, const py::dict& kwargs) {
  Arguments arguments(alias);
  for (const py::handle value : args) arguments.positional(value);
  py::object name = py::none(), attr = py::none();
  for (const auto& [key, value] : kwargs) {
    const auto text = key.cast<std::string>();
    if (text == "name")
      name = py::reinterpret_borrow<py::object>(value);
    else if (text == "attr")
      attr = py::reinterpret_borrow<py::object>(value);
    else
      arguments.keyword(text, value);
  }
  arguments.place_named();
  if (arguments.on_arrays())
    return make_op_object(ops().get_public(symbol::engine_name(alias)), alias)(*args, **kwargs);

  symbol::Given& given = arguments.given();
  for (const auto& [key, text] : scoped_attrs(attr)) given.attrs.try_emplace(key, text);
  const auto full = scopes().name(name, symbol::hint(alias)).cast<std::string>();
  const symbol::NodeRef node = symbol::compose(std::move(given), {full, user_line()});
  cast_inputs(*node);
  NodeOutputs outputs;
  for (int i = 0, n = node->num_outputs(); i < n; ++i) outputs.push_back({node, i});
  PyTypeObject* type = arguments.has_numpy() ? numpy_symbol_type : symbol_type;
  return py::handle(reinterpret_cast<PyObject*>(type))(outputs);
}

void bind_compose(py::module_& m) {
  m.def("compose", &compose, py::arg("alias"), py::arg("args"), py::arg("kwargs"),
        "The symbol of an operator's call; arrays give the operator's result.");
  m.def("text_of", &text_of, py::arg("value"),
        "A parameter's value as 1.x files spell it: (3, 3), True, float32.");
  m.def("scoped_attrs", &scoped_attrs, py::arg("attr") = py::none(),
        "Attributes of the current scope updated by attr, keys as files have them.");
  m.def(
      "hidden_key", [](const std::string& key) { return symbol::hidden_key(key); }, py::arg("key"),
      "__lr_mult__ for lr_mult and its like, other keys unchanged.");
  m.def(
      "set_symbol_scopes",
      [](py::object name, py::object attrs) {
        scopes() = {std::move(name), std::move(attrs)};
      },
      py::arg("name"), py::arg("attrs"),
      "Functions that compositions ask: name(name, hint), attrs(attr).");
  m.def("cast_inputs", &cast_inputs, py::arg("node"),
        "Give a new node the casts of mixed precision, if it is on.");
}

}  // namespace mxlite::python
