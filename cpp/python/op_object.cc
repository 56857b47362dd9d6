#include "cpp/python/op_object.h"

#include <pybind11/stl.h>

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/invoke.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/describe_op.h"
#include "cpp/python/op_arguments.h"
#include "cpp/python/operand.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_symbol.h"
#include "cpp/sparse/rule.h"

namespace mxlite::python {
namespace {

PyTypeObject* op_type = nullptr;

PyObject* interned(const char* text) {
  PyObject* o = PyUnicode_InternFromString(text);
  if (!o) throw py::error_already_set();
  return o;
}

// Returns whether a call creates a node. This is the case if its first operand is a symbol, or if
// it calls a function of mx.sym without operands; missing inputs then become variables.
bool composes(const OpObject& object, PyObject* const* args, size_t n, PyObject* keywords) {
  const size_t count = n + static_cast<size_t>(keywords ? PyTuple_GET_SIZE(keywords) : 0);
  if (object.takes_inputs)
    for (size_t i = 0; i < count; ++i)
      if (const OperandKind kind = operand_kind(args[i]); kind != OperandKind::kOther)
        return kind == OperandKind::kSymbol;
  return object.composes;
}

PyObject* call_op(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const ProfileScope profile("operator call", ProfileKind::kApi);
    const auto& object = object_of(self);
    const OpSchema& op = *object.op;
    const auto n = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    if (composes(object, args, n, keywords))
      return compose_symbol(*object.alias, args, n, keywords);
    OpArguments a(object);
    for (size_t i = 0; i < n && !a.sparse; ++i) a.add_positional(args[i]);
    for (Py_ssize_t k = 0, m = keywords ? PyTuple_GET_SIZE(keywords) : 0; k < m && !a.sparse; ++k)
      a.add_keyword(PyTuple_GET_ITEM(keywords, k), args[n + static_cast<size_t>(k)]);
    if (a.sparse) return call_sparse(self, args, n, keywords);
    if (a.symbolic) return compose_symbol(*object.alias, args, n, keywords);
    if (op.storage.chooses_storage) return call_sparse(self, args, n, keywords);
    if (object.ctx_param >= 0 && (a.given >> object.ctx_param & 1)) {
      const AttrValue& given = a.value(static_cast<size_t>(object.ctx_param));
      const auto* const text = std::get_if<std::string>(&given);
      MX_CHECK_KIND(text, ErrorKind::kType, op.name,
                    ": ctx must be a context such as mx.cpu(0), got ", attr_text(given));
      a.device = parse_device(*text);
    }
    a.take_shape_of_out();
    const ParamsRef params = a.make_params();
    a.check_inputs(params.get());
    a.check_out(params.get());
    NDArrays outputs = autograd::call(
        op, params, a.inputs, {.device = a.device, .out = a.out, .origin = current_origin()});
    const int visible = op.count_visible_outputs(params.get(), static_cast<int>(a.inputs.size()));
    if (visible == 1) return wrap_array(std::move(outputs[0]));
    py::list list(static_cast<size_t>(visible));
    for (int i = 0; i < visible; ++i)
      PyList_SET_ITEM(list.ptr(), i, wrap_array(std::move(outputs[static_cast<size_t>(i)])));
    return list.release().ptr();
  });
}

// Sorts and checks the arguments of a call with sparse arrays in the same way as those of a dense
// call. Checks counts, parameters and, if `shapes` is true, shape and dtype inference.
py::tuple bind_arguments(const py::handle& callable, const py::tuple& args, const py::dict& kwargs,
                         bool shapes) {
  MX_ASSERT(Py_IS_TYPE(callable.ptr(), op_type));
  const auto& object = object_of(callable.ptr());
  const OpSchema& op = *object.op;
  OpArguments a(object, /*with_sparse=*/true);
  for (const py::handle& arg : args) a.add_positional(arg.ptr());
  for (const auto& [key, value] : kwargs) a.add_keyword(key.ptr(), value.ptr());
  MX_CHECK_KIND(!a.symbolic, ErrorKind::kType, op.name,
                ": inputs must all be Symbols or all NDArrays, got both");
  a.take_shape_of_out();
  const ParamsRef params = a.make_params();
  a.check_inputs(params.get());
  a.check_out(params.get());
  SmallVector<TensorSpec, 4> specs;
  py::list inputs, out;
  for (const NDArrayRef& input : a.inputs) {
    specs.push_back(input->spec());
    inputs.append(py::reinterpret_steal<py::object>(wrap_array(input)));
  }
  if (shapes) infer_outputs(op, params.get(), specs);
  py::dict values;
  const std::vector<AttrValue> all = op.params_values(params.get());
  for (size_t i = 0; i < all.size(); ++i)
    if (static_cast<int>(i) != object.ctx_param || (a.given >> i & 1))
      values[py::str(op.params[i].name)] = attr_to_python(all[i]);
  for (const NDArrayRef& target : a.out)
    out.append(py::reinterpret_steal<py::object>(wrap_array(target)));
  return py::make_tuple(inputs, values, out, sparse::keeps_storage(op, params.get(), specs));
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyObject* get_name(PyObject* self, void*) {
  return PyUnicode_FromString(object_of(self).alias->c_str());
}
PyObject* get_schema_name(PyObject* self, void*) {
  return PyUnicode_FromString(object_of(self).op->name.c_str());
}
PyObject* get_module(PyObject*, void*) { return PyUnicode_FromString("mxlite.ndarray"); }
// Returns the text of the schema and the example that Python reads from a file.
PyObject* get_doc(PyObject* self, void*) {
  return guarded([&] {
    const OpSchema& op = *object_of(self).op;
    return py::module_::import("mxlite.ndarray.signatures")
        .attr("add_example")(op.name, doc_of(op))
        .release()
        .ptr();
  });
}
// Returns the signature for inspect.signature() and for the completion of editors.
PyObject* get_signature(PyObject* self, void*) {
  return guarded([&] {
    return py::module_::import("mxlite.ndarray.signatures")
        .attr("of_operator")(object_of(self).op->name, object_of(self).composes)
        .release()
        .ptr();
  });
}
PyObject* repr(PyObject* self) {
  const OpObject& object = object_of(self);
  return PyUnicode_FromFormat("<op %s%s>", object.alias->c_str(), object.op->signature().c_str());
}
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    const auto& object = object_of(self);
    return py::make_tuple(py::module_::import("mxlite._core").attr("op"),
                          py::make_tuple(*object.alias, object.composes))
        .release()
        .ptr();
  });
}

void init_op_type() {
  static PyGetSetDef getset[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                                 {"__module__", get_module, nullptr, nullptr, nullptr},
                                 {"schema_name", get_schema_name, nullptr,
                                  "The operator's name where `__name__` is an alias.", nullptr},
                                 {"__doc__", get_doc, nullptr, nullptr, nullptr},
                                 {"__signature__", get_signature, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "mxlite._core.Op";
  type.tp_basicsize = sizeof(OpObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_vectorcall_offset = offsetof(OpObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = bind_method;
  type.tp_getset = getset;
  type.tp_methods = methods;
  type.tp_repr = repr;
  if (PyType_Ready(&type) < 0) throw py::error_already_set();
  op_type = &type;
}

// Returns the interned keywords of an operator. All callables of the operator share them.
const std::unordered_map<PyObject*, int>* keywords_of(const OpSchema& op) {
  static auto* made = new std::unordered_map<const OpSchema*, std::unordered_map<PyObject*, int>>;
  const auto [at, added] = made->try_emplace(&op);
  if (added) {
    for (size_t i = 0; i < op.inputs.size(); ++i)
      at->second[interned(op.inputs[i].c_str())] = static_cast<int>(i);
    for (size_t i = 0; i < op.params.size(); ++i)
      at->second[interned(op.params[i].name.c_str())] = -1 - static_cast<int>(i);
  }
  return &at->second;
}

}  // namespace

py::object make_op_object(const OpSchema& op, std::string_view alias, bool composes) {
  using Key = std::tuple<std::string, bool>;
  static auto* made = new std::map<Key, PyObject*>;
  const auto at = made->try_emplace(Key(alias, composes)).first;
  if (!at->second) {
    MX_ASSERT(op.params.size() <= kMaxParams);
    auto* o = PyObject_New(OpObject, op_type);
    if (!o) throw py::error_already_set();
    o->vectorcall = call_op;
    o->op = &op;
    o->alias = &std::get<std::string>(at->first);
    o->takes_inputs = op.variadic || !op.inputs.empty();
    o->composes = composes;
    o->keywords = keywords_of(op);
    o->ctx_param = op.param_index("ctx");
    o->shape_param = o->takes_inputs ? -1 : op.param_index("shape");
    at->second = reinterpret_cast<PyObject*>(o);
  }
  return py::reinterpret_borrow<py::object>(at->second);
}

void bind_ops(py::module_& m) {
  init_op_type();
  bind_schemas(m);
  m.add_object("Op", py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(op_type)));
  m.def(
      "op",
      [](const std::string& name, bool composes) {
        return make_op_object(ops().get_public(name), name, composes);
      },
      py::arg("name"), py::arg("composes") = false,
      "The operator of that name or alias. Raises ValueError, with near names, for unknown and\n"
      "internal operators. Calls without operands make nodes if the operator shall compose.");
  m.def(
      "bind_arguments", &bind_arguments, py::arg("op"), py::arg("args"), py::arg("kwargs"),
      py::arg("shapes") = true,
      "(inputs, params, out, keeps_storage) of a call with sparse arrays: lists of arrays, values\n"
      "of all parameters, whether the result is stored where the only input is. Raises what the\n"
      "call on dense arrays raises; shapes and dtypes are not checked if `shapes` is False.");
  m.def(
      "all_ops",
      [](bool composes) {
        py::dict result;
        for (const OpSchema* op : ops().all()) {
          if (op->internal) continue;
          result[py::str(op->name)] = make_op_object(*op, op->name, composes);
          for (const std::string& alias : op->aliases)
            result[py::str(alias)] = make_op_object(*op, alias, composes);
        }
        return result;
      },
      py::arg("composes") = false,
      "Name or alias -> operator, as op gives it; hidden ones too, internal ones not.");
}

}  // namespace mxlite::python
