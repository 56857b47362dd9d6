// Operators called on a Symbol make nodes. The class registers itself here; the check is one
// comparison and runs only for arguments that are not arrays.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

namespace mxlite::python {

extern PyTypeObject* symbol_type;  // null until mx.sym is imported

inline bool is_symbol(PyObject* o) {
  return symbol_type && (Py_TYPE(o) == symbol_type || PyType_IsSubtype(Py_TYPE(o), symbol_type));
}

// The symbol of an operator's call; arrays give the operator's own result.
pybind11::object compose(const std::string& alias, const pybind11::tuple& args,
                         const pybind11::dict& kwargs);
// The call of an operator as vectorcall got it; a new reference.
PyObject* compose_symbol(const std::string& alias, PyObject* const* args, size_t nargs,
                         PyObject* keywords);

}  // namespace mxlite::python
