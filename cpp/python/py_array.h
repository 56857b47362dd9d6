// The Python class NDArray, a thin object around NDArrayRef. It does not use pybind11's instance
// machinery, because every operator call creates an object. pybind11 attaches the methods.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::python {

struct PyArray {
  PyObject_HEAD NDArrayRef ref;
  PyObject* weak_references;
};

extern PyTypeObject* array_type;  // set by init_array_type, never freed

PyTypeObject* init_array_type();
inline const NDArrayRef& array_of(PyObject* o) { return reinterpret_cast<PyArray*>(o)->ref; }

enum class ArrayKind : uint8_t {
  kNone,    // not an array
  kDense,   // an NDArray or an object of a subclass, such as numpy mode's
  kSparse,  // an array of mx.nd.sparse, which operators do not accept
};
inline ArrayKind array_kind(PyObject* o) {
  if (Py_TYPE(o) == array_type) return ArrayKind::kDense;
  if (!PyType_IsSubtype(Py_TYPE(o), array_type)) return ArrayKind::kNone;
  return array_of(o)->is_sparse() ? ArrayKind::kSparse : ArrayKind::kDense;
}
inline bool is_array(PyObject* o) { return array_kind(o) == ArrayKind::kDense; }
inline bool is_sparse_array(PyObject* o) { return array_kind(o) == ArrayKind::kSparse; }
inline bool is_any_array(PyObject* o) { return array_kind(o) != ArrayKind::kNone; }
// Returns a new reference to the array's Python object. The object is cached as long as it exists.
// Only this function chooses the object's class.
PyObject* wrap_array(NDArrayRef array);
// Sets the class for arrays with NDArray::is_numpy(). It must be a subclass of NDArray. None resets
// the class.
void set_numpy_class(PyObject* cls);

// Converts a dense or sparse array. Throws a type error that names `who` for all other objects.
NDArrayRef any_array_of(pybind11::handle o, const char* who);

// The classes of mx.nd.sparse, and the function that runs operators on their arrays: dispatch(op,
// args, kwargs). mxlite/ndarray/sparse sets them once.
struct SparseHooks {
  PyTypeObject* row_sparse = nullptr;
  PyTypeObject* csr = nullptr;
  PyObject* dispatch = nullptr;
};
extern SparseHooks sparse_hooks;
// Runs `op` with vectorcall arguments, one of which is sparse. Returns a new reference.
PyObject* call_sparse(PyObject* op, PyObject* const* args, size_t nargs, PyObject* keywords);

}  // namespace mxlite::python

namespace pybind11::detail {

template <>
struct type_caster<mxlite::NDArrayRef> {
  PYBIND11_TYPE_CASTER(mxlite::NDArrayRef, const_name("NDArray"));

  bool load(handle src, bool) {
    if (!mxlite::python::is_array(src.ptr())) return false;
    value = mxlite::python::array_of(src.ptr());
    return true;
  }
  static handle cast(const mxlite::NDArrayRef& array, return_value_policy, handle) {
    if (!array) return none().release();
    return mxlite::python::wrap_array(array);
  }
};

}  // namespace pybind11::detail
