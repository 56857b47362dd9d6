#include "cpp/python/py_array.h"

#include <structmember.h>

#include <new>
#include <string_view>
#include <utility>

#include "cpp/ndarray/sparse.h"
#include "cpp/python/array_handles.h"

namespace mxlite::python {

PyTypeObject* array_type = nullptr;
static PyTypeObject* numpy_type = nullptr;
SparseHooks sparse_hooks;

namespace {

void dealloc(PyObject* self) {
  auto* object = reinterpret_cast<PyArray*>(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  if (object->ref) object->ref->python_object = nullptr;
  object->ref.~IntrusivePtr();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* allocate(PyTypeObject* type) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) new (&reinterpret_cast<PyArray*>(self)->ref) NDArrayRef();
  return self;
}

// Returns the argument of NDArray(handle) or NDArray(handle=handle), or null for other arguments.
PyObject* handle_argument(PyObject* args, PyObject* keywords) {
  const Py_ssize_t named = keywords ? PyDict_Size(keywords) : 0;
  if (PyTuple_GET_SIZE(args) + named != 1) return nullptr;
  return named ? PyDict_GetItemString(keywords, "handle") : PyTuple_GET_ITEM(args, 0);
}

bool is_address(PyObject* o) { return o && std::string_view(Py_TYPE(o)->tp_name) == "c_void_p"; }

// Allows NDArray(handle), and NDArray(None), which MXNet's pickles call before they set the state.
int forbid_init(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* handle = handle_argument(args, keywords);
  if (handle == Py_None || is_address(handle)) return 0;
  PyErr_Format(PyExc_TypeError, "%s cannot be made directly; use mx.nd.array",
               Py_TYPE(self)->tp_name);
  return -1;
}

PyObject* of_handle(PyObject* handle) {
  namespace py = pybind11;
  try {
    const py::object address = py::handle(handle).attr("value");
    const auto value = address.is_none() ? uintptr_t{0} : address.cast<uintptr_t>();
    return wrap_array(take_handle(reinterpret_cast<void*>(value)));
  } catch (const Error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (py::error_already_set& raised) {
    raised.restore();
  }
  return nullptr;
}

PyObject* make_stateless(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  if (PyObject* handle = handle_argument(args, keywords); is_address(handle))
    return of_handle(handle);
  const auto none = [](DType dtype) { return NDArray::empty({Shape{0}, dtype}, Device{}); };
  if (type == array_type || type == numpy_type) {
    const NDArrayRef array = none(DType::kFloat32);
    array->set_numpy(type == numpy_type);
    return wrap_array(array);
  }
  const NDArrayRef values = none(DType::kFloat32), indices = none(DType::kInt64);
  const TensorSpec spec{Shape{0, 0}, DType::kFloat32};
  if (type == sparse_hooks.row_sparse)
    return wrap_array(make_row_sparse(spec, NDArray::empty(spec, Device{}), indices));
  if (type == sparse_hooks.csr) return wrap_array(make_csr(spec, values, indices, indices));
  PyErr_Format(PyExc_TypeError, "%s cannot be made directly; use mx.nd.array", type->tp_name);
  return nullptr;
}

}  // namespace

PyTypeObject* init_array_type() {
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(PyArray, weak_references), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_new, reinterpret_cast<void*>(make_stateless)},
      {Py_tp_init, reinterpret_cast<void*>(forbid_init)},
      {Py_tp_members, members},
      {Py_tp_doc,
       const_cast<char*>("NDArray()\n--\n\nArray on a device; see mxlite.nd for how to make one.")},
      {0, nullptr}};
  static PyType_Spec spec = {"mxlite._core.NDArray", sizeof(PyArray), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  array_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!array_type) throw pybind11::error_already_set();
  return array_type;
}

PyObject* wrap_array(NDArrayRef array) {
  if (array->python_object) {
    auto* existing = static_cast<PyObject*>(array->python_object);
    Py_INCREF(existing);
    return existing;
  }
  PyTypeObject* type = array->is_numpy() && numpy_type ? numpy_type : array_type;
  if (array->is_sparse())
    type = storage_type(*array) == StorageType::kCSR ? sparse_hooks.csr : sparse_hooks.row_sparse;
  PyObject* self = allocate(type);
  if (!self) throw pybind11::error_already_set();
  array->python_object = self;
  reinterpret_cast<PyArray*>(self)->ref = std::move(array);
  return self;
}

void set_numpy_class(PyObject* cls) {
  auto* type = cls == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(cls);
  MX_CHECK_KIND(!type || (PyType_Check(cls) && PyType_IsSubtype(type, array_type)),
                ErrorKind::kType,
                "set_numpy_class: cls must be a subclass of NDArray or None, got ",
                pybind11::repr(cls).cast<std::string>());
  Py_XINCREF(type);
  Py_XDECREF(std::exchange(numpy_type, type));
}

NDArrayRef any_array_of(pybind11::handle o, const char* who) {
  MX_CHECK_KIND(is_any_array(o.ptr()), ErrorKind::kType, who,
                ": the array must be an NDArray, got ", Py_TYPE(o.ptr())->tp_name);
  return array_of(o.ptr());
}

PyObject* call_sparse(PyObject* op, PyObject* const* args, size_t nargs, PyObject* keywords) {
  namespace py = pybind11;
  py::tuple positional(nargs);
  for (size_t i = 0; i < nargs; ++i) positional[i] = py::handle(args[i]);
  py::dict named;
  for (Py_ssize_t k = 0, m = keywords ? PyTuple_GET_SIZE(keywords) : 0; k < m; ++k)
    named[PyTuple_GET_ITEM(keywords, k)] = py::handle(args[nargs + static_cast<size_t>(k)]);
  const py::object dispatch = py::reinterpret_borrow<py::object>(sparse_hooks.dispatch);
  return dispatch(py::handle(op), positional, named).release().ptr();
}

}  // namespace mxlite::python
