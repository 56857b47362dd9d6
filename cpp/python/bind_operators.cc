// Arithmetic and comparison of arrays and symbols, such as a + b, 2 / a, a += b and a > 0. All
// Python operators are instances of one callable type. The table below assigns the operators of
// mxlite to them.
#include <array>
#include <string>

#include "cpp/autograd/call.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/numpy/promotion.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_symbol.h"

namespace mxlite::python {
namespace {

enum class Signs : uint8_t {
  kArithmetic,  // a + b, 2 + a, a += b
  kComparison,  // a > b; Python swaps the operands of 2 > a
  kNone,        // only functions, such as mx.nd.maximum
};

// Names of mxlite's operators are those of MXNet 1.x's symbols, because node names are derived from
// them.
struct Arithmetic {
  const char* name;        // such as "add" for __add__
  const char* same_shape;  // operator on two symbols, and on sparse arrays of one shape
  const char* broadcast;   // on two arrays
  const char* scalar;      // on an array and a number
  const char* reflected;   // on a number and an array
  Signs signs = Signs::kArithmetic;
  // Operators of numpy mode on two arrays, on an array and a number, and on a number and an array.
  // If `numpy` is null, the operators above are used. If only the other two are null, arrays
  // convert the number to an array, and symbols use `scalar`.
  const char* numpy = nullptr;
  const char* numpy_scalar = nullptr;
  const char* numpy_reflected = nullptr;
};
constexpr std::array kTable = {
    Arithmetic{"add", "_Plus", "broadcast_add", "_PlusScalar", "_PlusScalar"},
    Arithmetic{"sub", "_Minus", "broadcast_sub", "_MinusScalar", "_RMinusScalar"},
    Arithmetic{"mul", "_Mul", "broadcast_mul", "_MulScalar", "_MulScalar"},
    Arithmetic{"truediv", "_Div", "broadcast_div", "_DivScalar", "_RDivScalar"},
    Arithmetic{"mod", "_Mod", "broadcast_mod", "_ModScalar", "_RModScalar", Signs::kArithmetic,
               "_npi_mod"},
    Arithmetic{"pow", "_Power", "broadcast_power", "_PowerScalar", "_RPowerScalar"},
    Arithmetic{"eq", "_equal", "broadcast_equal", "_equal_scalar", "_equal_scalar",
               Signs::kComparison, "_npi_equal", "_npi_equal_scalar", "_npi_equal_scalar"},
    Arithmetic{"ne", "_not_equal", "broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar",
               Signs::kComparison, "_npi_not_equal", "_npi_not_equal_scalar",
               "_npi_not_equal_scalar"},
    Arithmetic{"gt", "_greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar",
               Signs::kComparison, "_npi_greater", "_npi_greater_scalar", "_npi_less_scalar"},
    Arithmetic{"ge", "_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar",
               "_lesser_equal_scalar", Signs::kComparison, "_npi_greater_equal",
               "_npi_greater_equal_scalar", "_npi_less_equal_scalar"},
    Arithmetic{"lt", "_lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar",
               Signs::kComparison, "_npi_less", "_npi_less_scalar", "_npi_greater_scalar"},
    Arithmetic{"le", "_lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar",
               "_greater_equal_scalar", Signs::kComparison, "_npi_less_equal",
               "_npi_less_equal_scalar", "_npi_greater_equal_scalar"},
    Arithmetic{"maximum", "_Maximum", "broadcast_maximum", "_MaximumScalar", "_MaximumScalar",
               Signs::kNone},
    Arithmetic{"minimum", "_Minimum", "broadcast_minimum", "_MinimumScalar", "_MinimumScalar",
               Signs::kNone},
    Arithmetic{"hypot", "_Hypot", "broadcast_hypot", "_HypotScalar", "_HypotScalar", Signs::kNone},
    Arithmetic{"logical_and", "_logical_and", "broadcast_logical_and", "_logical_and_scalar",
               "_logical_and_scalar", Signs::kNone, "_npi_logical_and", "_npi_logical_and_scalar",
               "_npi_logical_and_scalar"},
    Arithmetic{"logical_or", "_logical_or", "broadcast_logical_or", "_logical_or_scalar",
               "_logical_or_scalar", Signs::kNone, "_npi_logical_or", "_npi_logical_or_scalar",
               "_npi_logical_or_scalar"},
    Arithmetic{"logical_xor", "_logical_xor", "broadcast_logical_xor", "_logical_xor_scalar",
               "_logical_xor_scalar", Signs::kNone, "_npi_logical_xor", "_npi_logical_xor_scalar",
               "_npi_logical_xor_scalar"},
};

// Operators that only numpy mode has.
constexpr Arithmetic numpy_only(const char* name, const char* op, Signs signs) {
  return {name, nullptr, nullptr, nullptr, nullptr, signs, op};
}
constexpr std::array kNumpyTable = {
    numpy_only("floordiv", "_npi_floor_divide", Signs::kArithmetic),
    numpy_only("and", "_npi_bitwise_and", Signs::kArithmetic),
    numpy_only("or", "_npi_bitwise_or", Signs::kArithmetic),
    numpy_only("xor", "_npi_bitwise_xor", Signs::kArithmetic),
    numpy_only("lshift", "_npi_left_shift", Signs::kArithmetic),
    numpy_only("rshift", "_npi_right_shift", Signs::kArithmetic),
    numpy_only("fmod", "_npi_fmod", Signs::kNone),
    numpy_only("fmax", "_npi_fmax", Signs::kNone),
    numpy_only("fmin", "_npi_fmin", Signs::kNone),
    numpy_only("gcd", "_npi_gcd", Signs::kNone),
    numpy_only("lcm", "_npi_lcm", Signs::kNone),
    numpy_only("arctan2", "_npi_arctan2", Signs::kNone),
    numpy_only("copysign", "_npi_copysign", Signs::kNone),
    numpy_only("logaddexp", "_npi_logaddexp", Signs::kNone),
    numpy_only("nextafter", "_npi_nextafter", Signs::kNone),
};

enum class Side : uint8_t { kLeft, kRight, kInPlace };  // the position of `self`

struct OperatorObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Arithmetic* arithmetic;
  Side side;
  std::string* method;  // such as "__radd__"; exists until the process ends, like the object
  const OpSchema* array_op;
  const OpSchema* scalar_op;
  const OpSchema* numpy_op;
  const OpSchema* numpy_scalar_op;  // null if numpy mode converts the number to an array
};

const OperatorObject& object_of(PyObject* self) { return *reinterpret_cast<OperatorObject*>(self); }

const char* scalar_name(const OperatorObject& object) {
  const Arithmetic& table = *object.arithmetic;
  return object.side == Side::kRight ? table.reflected : table.scalar;
}

// Returns whether the object is a Python or NumPy scalar. NumPy arrays are sequences and not
// scalars.
bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) ||
         (PyNumber_Check(o) && !PySequence_Check(o) && !PyComplex_Check(o));
}

// Converts integers exactly and all other numbers to double.
Number number_from_python(PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (PyIndex_Check(o))
    return AttrTraits<Number>::from(attr_from_python(o, "arithmetic", "operand"));
  const double value = PyFloat_AsDouble(o);
  if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
  return value;
}

py::object operator_named(const char* name) { return make_op_object(ops().get(name), name); }

// Computes an operator with one sparse operand and an array or number.
PyObject* call_on_sparse(const OperatorObject& object, PyObject* self, PyObject* other,
                         bool in_place) {
  if (is_any_array(other)) {
    const bool alike = array_of(self)->shape() == array_of(other)->shape();
    const py::object op = operator_named(alike ? object.arithmetic->same_shape
                                               : object.arithmetic->broadcast),
                     names = py::make_tuple("out");
    const bool swapped = object.side == Side::kRight;
    PyObject* const operands[] = {swapped ? other : self, swapped ? self : other, self};
    return call_sparse(op.ptr(), operands, 2, in_place ? names.ptr() : nullptr);
  }
  const py::object op = operator_named(scalar_name(object));
  const py::tuple names =
      in_place ? py::tuple(py::make_tuple("scalar", "out")) : py::tuple(py::make_tuple("scalar"));
  PyObject* const operands[] = {self, other, self};
  return call_sparse(op.ptr(), operands, 1, names.ptr());
}

PyObject* call_on_symbol(const OperatorObject& object, PyObject* self, PyObject* other) {
  const Arithmetic& table = *object.arithmetic;
  const bool swapped = object.side == Side::kRight;
  const bool numpy = is_numpy_symbol(self) || is_numpy_symbol(other);
  if (is_symbol(other)) {
    PyObject* const operands[] = {swapped ? other : self, swapped ? self : other};
    const char* op = !numpy ? table.same_shape : table.numpy ? table.numpy : table.broadcast;
    return compose_symbol(op, operands, 2, nullptr);
  }
  const char* scalar = numpy && table.numpy_scalar
                           ? (swapped ? table.numpy_reflected : table.numpy_scalar)
                           : scalar_name(object);
  MX_CHECK_KIND(scalar && is_number(other) && !is_any_array(other) && !PyComplex_Check(other),
                ErrorKind::kType, "Symbol.", *object.method, ": the operand must be a Symbol",
                scalar ? " or a number" : "", ", got ", Py_TYPE(other)->tp_name);
  const py::object names = py::make_tuple("scalar");
  PyObject* const operands[] = {self, other};
  return compose_symbol(scalar, operands, 1, names.ptr());
}

PyObject* call_on_array(const OperatorObject& object, const NDArrayRef& array, PyObject* other,
                        bool other_is_array, bool in_place) {
  InvokeOptions options{.device = array->device(), .origin = current_origin()};
  if (in_place) options.out = std::span(&array, 1);
  if (other_is_array) {
    const NDArrayRef& rhs = array_of(other);
    const std::array<NDArrayRef, 2> inputs =
        object.side == Side::kRight ? std::array{rhs, array} : std::array{array, rhs};
    return wrap_array(std::move(
        autograd::call(*object.array_op, object.array_op->default_params, inputs, options)[0]));
  }
  // All operators of an array and a number have the parameters ScalarParams.
  auto params = std::make_shared<ScalarParams>();
  params->scalar = number_from_python(other);
  return wrap_array(
      std::move(autograd::call(*object.scalar_op, std::move(params), {&array, 1}, options)[0]));
}

// Returns a number as an array of 0 dimensions. Its dtype depends on `array`.
NDArrayRef number_beside(const NDArrayRef& array, PyObject* number) {
  const NumberKind kind = PyIndex_Check(number) ? NumberKind::kInteger : NumberKind::kReal;
  const bool keeps = PyBool_Check(number) && array->dtype() == DType::kBool;
  const DType dtype = keeps ? DType::kBool : promoted(array->dtype(), kind);
  const NDArrayRef result = autograd::call_op(
      "_full", {},
      {{"shape", Shape{}}, {"dtype", dtype}, {"value", number_from_python(number).attr()}},
      array->device());
  return result->is_numpy() ? result : result->with_numpy(true);
}

// Throws unless the array may store the results in place.
void check_stores(const OperatorObject& object, const OpSchema& op, const void* params,
                  std::span<const NDArrayRef> inputs, const NDArrayRef& array) {
  const DType result = numpy_input_dtype(op, params, inputs).value_or(array->dtype());
  MX_CHECK_DTYPE(is_same_kind(result, array->dtype()), *object.method,
                 ": the result must be of the array's kind, got ", result,
                 " for an array of dtype ", array->dtype(),
                 "; assign the result of a + b instead of a += b, or convert the "
                 "operand with astype");
}

// Computes an operator on an array of numpy mode and another array or a number.
PyObject* call_on_numpy(const OperatorObject& object, const NDArrayRef& array, PyObject* other,
                        bool in_place) {
  InvokeOptions options{.device = array->device(), .origin = current_origin()};
  if (in_place) options.out = std::span(&array, 1);
  if (!is_array(other) && object.numpy_scalar_op) {
    auto params = std::make_shared<ScalarParams>();
    params->scalar = number_from_python(other);
    params->is_int = PyIndex_Check(other);
    const OpSchema& op = *object.numpy_scalar_op;
    if (in_place) check_stores(object, op, params.get(), {&array, 1}, array);
    return wrap_array(std::move(autograd::call(op, std::move(params), {&array, 1}, options)[0]));
  }
  const NDArrayRef rhs = is_array(other) ? array_of(other) : number_beside(array, other);
  MX_CHECK_KIND(
      rhs->is_numpy() && array->is_numpy(), ErrorKind::kType, *object.method,
      ": operands must be arrays of one class, got an mx.np.ndarray and an mx.nd.NDArray; "
      "convert one with as_np_ndarray() or as_nd_ndarray()");
  const OpSchema& op = *object.numpy_op;
  const std::array<NDArrayRef, 2> inputs =
      object.side == Side::kRight ? std::array{rhs, array} : std::array{array, rhs};
  if (in_place) check_stores(object, op, nullptr, inputs, array);
  return wrap_array(std::move(autograd::call(op, op.default_params, inputs, options)[0]));
}

// Tries the reflected method of `other`, an object of another library, as Python does.
PyObject* beside_foreign(const OperatorObject& object, PyObject* self, PyObject* other) {
  // Raises an error for a list or tuple. With NotImplemented, Python's == would return
  // False.
  const bool sequence = PyList_Check(other) || PyTuple_Check(other);
  const bool comparison = object.arithmetic->signs == Signs::kComparison;
  const bool numpy = is_array(self) && array_of(self)->is_numpy();
  if (!sequence && !numpy && (comparison || object.side == Side::kInPlace))
    Py_RETURN_NOTIMPLEMENTED;
  if (!sequence && object.side == Side::kLeft) {
    const std::string reflected = str("__r", object.arithmetic->name, "__");
    if (PyObject_HasAttrString(other, reflected.c_str())) {
      const py::handle method = other;
      py::object result = method.attr(reflected.c_str())(py::handle(self));
      if (result.ptr() != Py_NotImplemented) return result.release().ptr();
    }
  }
  const bool text = PyUnicode_Check(other) || PyBytes_Check(other) || other == Py_None;
  fail(ErrorKind::kType, *object.method,
       ": the other operand of an NDArray must be an NDArray or a number, got ",
       Py_TYPE(other)->tp_name,
       text || PyComplex_Check(other) ? "" : "; convert it with mx.nd.array(...)");
}

PyObject* call_operator(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject*) {
  return guarded([&]() -> PyObject* {
    const OperatorObject& object = object_of(callable);
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    const ArrayKind own = n >= 2 ? array_kind(args[0]) : ArrayKind::kNone;
    if (n < 2 || n > 3 || !(own != ArrayKind::kNone || is_symbol(args[0])) ||
        (n == 3 && args[2] != Py_None)) {
      PyErr_Format(PyExc_TypeError, "%s takes an NDArray or a Symbol, and one operand",
                   object.method->c_str());
      return nullptr;
    }
    PyObject *self = args[0], *other = args[1];
    MX_CHECK_KIND(object.array_op || own == ArrayKind::kDense || is_numpy_symbol(self),
                  ErrorKind::kType, *object.method,
                  ": operands must be arrays of mx.np or numbers, got ", Py_TYPE(self)->tp_name);
    if (own == ArrayKind::kNone) return call_on_symbol(object, self, other);
    // `x += y` on a recorded or traced array makes a new array, as in Python without __iadd__.
    // Recorded arrays raise an error (autograd/call.cc), because 1.x does the same.
    const bool in_place = object.side == Side::kInPlace && !graph::Trace::current();
    const ArrayKind kind = PyFloat_CheckExact(other) ? ArrayKind::kNone : array_kind(other);
    if (kind != ArrayKind::kNone || is_number(other)) {
      if (kind == ArrayKind::kSparse || own == ArrayKind::kSparse)
        return call_on_sparse(object, self, other, in_place);
      const NDArrayRef& array = array_of(self);
      const bool on_array = kind == ArrayKind::kDense;
      if (!object.array_op || array->is_numpy() || (on_array && array_of(other)->is_numpy()))
          [[unlikely]]
        return call_on_numpy(object, array, other, in_place);
      return call_on_array(object, array, other, on_array, in_place);
    }
    return beside_foreign(object, self, other);
  });
}

PyObject* get_name(PyObject* self, void*) {
  return PyUnicode_FromString(object_of(self).method->c_str());
}

PyObject* get_signature(PyObject*, void*) { return PyUnicode_FromString("(self, other)"); }

PyTypeObject* init_operator_type() {
  static PyGetSetDef getset[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                                 {"__text_signature__", get_signature, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "mxlite._core.Sign";
  type.tp_getset = getset;
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

py::object make_operator(const Arithmetic& arithmetic, Side side, const std::string& name) {
  static PyTypeObject* const type = init_operator_type();
  auto* o = PyObject_New(OperatorObject, type);
  if (!o) throw py::error_already_set();
  o->vectorcall = call_operator;
  o->arithmetic = &arithmetic;
  o->side = side;
  o->method = new std::string(name);
  const auto op_of = [](const char* op) { return op ? &ops().get(op) : nullptr; };
  o->array_op = op_of(arithmetic.broadcast);
  o->scalar_op = op_of(scalar_name(*o));
  o->numpy_op = arithmetic.numpy ? op_of(arithmetic.numpy) : o->array_op;
  o->numpy_scalar_op = arithmetic.numpy ? op_of(side == Side::kRight ? arithmetic.numpy_reflected
                                                                     : arithmetic.numpy_scalar)
                                        : o->scalar_op;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(o));
}

void attach(const py::handle& cls, const Arithmetic& arithmetic, Side side, const char* prefix) {
  const std::string method = str("__", prefix, arithmetic.name, "__");
  cls.attr(method.c_str()) = make_operator(arithmetic, side, method);
}

// Attaches the methods of Python operators (__add__, ...) to a class of arrays or symbols.
void attach_signs(const py::handle& cls, std::span<const Arithmetic> table, bool in_place) {
  for (const Arithmetic& arithmetic : table) {
    if (arithmetic.signs == Signs::kNone) continue;
    attach(cls, arithmetic, Side::kLeft, "");
    if (arithmetic.signs == Signs::kComparison) continue;
    attach(cls, arithmetic, Side::kRight, "r");
    // `x **= y` makes a new array, as in MXNet 1.x. Other references keep the old values.
    if (in_place && std::string_view(arithmetic.name) != "pow")
      attach(cls, arithmetic, Side::kInPlace, "i");
  }
}

py::tuple numpy_operators(const std::string& name) {
  for (const std::span<const Arithmetic> table :
       {std::span<const Arithmetic>(kTable), std::span<const Arithmetic>(kNumpyTable)})
    for (const Arithmetic& a : table)
      if (name == a.name)
        return py::make_tuple(make_operator(a, Side::kLeft, name),
                              make_operator(a, Side::kRight, name));
  fail(ErrorKind::kValue, "numpy_operators: unknown name '", name, "'");
}

py::object promoted_dtype(const py::args& dtypes) {
  MX_CHECK_KIND(!dtypes.empty(), ErrorKind::kValue,
                "promoted_dtype: the number of dtypes must be at least 1, got 0");
  DType result = require_dtype(dtypes[0], "promoted_dtype");
  for (const py::handle& dtype : dtypes)
    result = promoted(result, require_dtype(dtype, "promoted_dtype"));
  return py::reinterpret_borrow<py::object>(dtype_to_python(result));
}

py::tuple operators_of(const std::string& name) {
  for (const Arithmetic& a : kTable)
    if (name == a.name) return py::make_tuple(a.same_shape, a.broadcast, a.scalar, a.reflected);
  fail(ErrorKind::kValue, "arithmetic: unknown name '", name, "'");
}

}  // namespace

void bind_operators(py::module_& m) {
  attach_signs(reinterpret_cast<PyObject*>(array_type), kTable, /*in_place=*/true);
  m.def(
      "attach_numpy_signs",
      [](const py::handle& cls, bool in_place) { attach_signs(cls, kNumpyTable, in_place); },
      py::arg("cls"), py::arg("in_place") = true,
      "Give a class of arrays or symbols of numpy mode // & | ^ << >>.");
  m.def("numpy_operators", &numpy_operators, py::arg("name"),
        "Callables of a sign (add for +) or function (arctan2) of numpy mode: on an array and an\n"
        "operand, and on an array and the operand before it.");
  m.def("promoted_dtype", &promoted_dtype,
        "Dtype of numpy mode's arithmetic on arrays of these dtypes.");
  m.def(
      "attach_signs", [](const py::handle& cls) { attach_signs(cls, kTable, /*in_place=*/false); },
      py::arg("cls"), "Give a class of symbols + - * / % ** and comparisons.");
  m.def(
      "arithmetic", &operators_of, py::arg("name"),
      "Names of the operators behind a sign (add for +) or a function (maximum): on two arrays of\n"
      "one shape, on two that are broadcast, on array and number, on number and array.");
}

}  // namespace mxlite::python
