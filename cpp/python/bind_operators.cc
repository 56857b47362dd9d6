// Arithmetic and comparison of NDArrays: a + b, 2 / a, a += b, a > 0. One callable type, an entry
// per operator; an array on the other side takes the broadcasting op, a number the scalar op.
#include <array>

#include "cpp/autograd/call.h"
#include "cpp/graph/trace.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

struct Row {
  const char* method;
  const char* array_op;   // op(self, other), or op(other, self) when swapped
  const char* scalar_op;  // op(self, scalar)
  bool swapped = false;
  bool in_place = false;
};
constexpr std::array kRows = {
    Row{"__add__", "broadcast_add", "_plus_scalar"},
    Row{"__radd__", "broadcast_add", "_plus_scalar", true},
    Row{"__iadd__", "broadcast_add", "_plus_scalar", false, true},
    Row{"__sub__", "broadcast_sub", "_minus_scalar"},
    Row{"__rsub__", "broadcast_sub", "_rminus_scalar", true},
    Row{"__isub__", "broadcast_sub", "_minus_scalar", false, true},
    Row{"__mul__", "broadcast_mul", "_mul_scalar"},
    Row{"__rmul__", "broadcast_mul", "_mul_scalar", true},
    Row{"__imul__", "broadcast_mul", "_mul_scalar", false, true},
    Row{"__truediv__", "broadcast_div", "_div_scalar"},
    Row{"__rtruediv__", "broadcast_div", "_rdiv_scalar", true},
    Row{"__itruediv__", "broadcast_div", "_div_scalar", false, true},
    Row{"__mod__", "broadcast_mod", "_mod_scalar"},
    Row{"__rmod__", "broadcast_mod", "_rmod_scalar", true},
    Row{"__imod__", "broadcast_mod", "_mod_scalar", false, true},
    Row{"__pow__", "broadcast_power", "_power_scalar"},
    Row{"__rpow__", "broadcast_power", "_rpower_scalar", true},
    Row{"__ipow__", "broadcast_power", "_power_scalar", false, true},
    Row{"__eq__", "broadcast_equal", "_equal_scalar"},
    Row{"__ne__", "broadcast_not_equal", "_not_equal_scalar"},
    Row{"__gt__", "broadcast_greater", "_greater_scalar"},
    Row{"__ge__", "broadcast_greater_equal", "_greater_equal_scalar"},
    Row{"__lt__", "broadcast_lesser", "_lesser_scalar"},
    Row{"__le__", "broadcast_lesser_equal", "_lesser_equal_scalar"},
};

struct OperatorObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Row* row;
  const OpSchema* array_op;
  const OpSchema* scalar_op;
};

// Python and NumPy scalars; NumPy arrays are sequences.
bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || (PyNumber_Check(o) && !PySequence_Check(o));
}

// Integers stay exact; everything else is a double.
AttrValue number_from_python(PyObject* o) {
  if (PyIndex_Check(o)) return attr_from_python(o, "arithmetic", "operand");
  const double value = PyFloat_AsDouble(o);
  if (PyErr_Occurred()) throw py::error_already_set();
  return value;
}

PyObject* call_operator(PyObject* self, PyObject* const* args, size_t nargsf, PyObject*) {
  return guarded([&]() -> PyObject* {
    const auto& object = *reinterpret_cast<OperatorObject*>(self);
    const Row& row = *object.row;
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n < 2 || n > 3 || !is_array(args[0]) || (n == 3 && args[2] != Py_None)) {
      PyErr_Format(PyExc_TypeError, "%s takes an NDArray and one operand", row.method);
      return nullptr;
    }
    const NDArrayRef& array = array_of(args[0]);
    PyObject* other = args[1];
    // `x += y` on a recorded or traced array makes a new array, as in Python without __iadd__;
    // recorded ones raise (autograd/call.cc) because 1.x does.
    const bool in_place = row.in_place && !graph::Trace::current();
    InvokeOptions options{.device = array->device(), .origin = current_origin()};
    if (in_place) options.out = std::span(&array, 1);
    NDArrays result;
    if (is_array(other)) {
      const NDArrayRef& rhs = array_of(other);
      const std::array<NDArrayRef, 2> inputs =
          row.swapped ? std::array{rhs, array} : std::array{array, rhs};
      result = autograd::call(*object.array_op, object.array_op->default_params, inputs, options);
    } else if (!is_sparse_array(other) && is_number(other)) {
      const AttrValue value = number_from_python(other);
      result = autograd::call(*object.scalar_op, object.scalar_op->make_params({&value, 1}, 1),
                              {&array, 1}, options);
    } else if (is_sparse_array(other)) {
      const py::object op = make_op_object(*object.array_op, object.array_op->name),
                       names = py::make_tuple("out");
      PyObject* const operands[] = {row.swapped ? other : args[0], row.swapped ? args[0] : other,
                                    args[0]};
      return call_sparse(op.ptr(), operands, 2, in_place ? names.ptr() : nullptr);
    } else if (PyList_Check(other) || PyTuple_Check(other)) {
      // Without this, Python would compare identities for == and give False.
      fail(ErrorKind::kType, row.method, ": a ", Py_TYPE(other)->tp_name,
           " given beside an NDArray, an NDArray or a number expected; convert it with "
           "mx.nd.array(...)");
    } else {
      Py_RETURN_NOTIMPLEMENTED;
    }
    return wrap_array(std::move(result[0]));
  });
}

PyTypeObject* init_operator_type() {
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "mxlite._core.ArrayOperator";
  type.tp_basicsize = sizeof(OperatorObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_vectorcall_offset = offsetof(OperatorObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = [](PyObject* self, PyObject* instance, PyObject*) {
    if (instance) return PyMethod_New(self, instance);
    Py_INCREF(self);
    return self;
  };
  if (PyType_Ready(&type) < 0) throw py::error_already_set();
  return &type;
}

}  // namespace

void bind_operators(py::module_&) {
  PyTypeObject* type = init_operator_type();
  const py::handle cls(reinterpret_cast<PyObject*>(array_type));
  for (const Row& row : kRows) {
    auto* o = PyObject_New(OperatorObject, type);
    if (!o) throw py::error_already_set();
    o->vectorcall = call_operator;
    o->row = &row;
    o->array_op = &ops().get(row.array_op);
    o->scalar_op = &ops().get(row.scalar_op);
    cls.attr(row.method) = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(o));
  }
}

}  // namespace mxlite::python
