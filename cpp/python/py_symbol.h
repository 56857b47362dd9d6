// Operators called on a Symbol hand the call to Python's mx.sym, which registers itself here. The
// check is one comparison and runs only for arguments that are no arrays.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

extern PyTypeObject* symbol_type;   // null until mx.sym is imported
extern PyObject* compose_function;  // compose(op, args, kwargs) -> Symbol

inline bool is_symbol(PyObject* o) {
  return symbol_type && (Py_TYPE(o) == symbol_type || PyType_IsSubtype(Py_TYPE(o), symbol_type));
}

// The call of `op` as vectorcall got it; a new reference.
PyObject* compose_symbol(PyObject* op, PyObject* const* args, size_t nargs, PyObject* keywords);

}  // namespace mxlite::python
