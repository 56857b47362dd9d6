// Operators that are called on a Symbol create nodes. The class Symbol registers itself as
// `symbol_type`. is_symbol is one comparison and runs only for arguments that are not arrays.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

namespace mxlite::python {

extern PyTypeObject* symbol_type;        // null until mx.sym is imported
extern PyTypeObject* numpy_symbol_type;  // subclass for numpy mode; compositions of such symbols
                                         // are such symbols

inline bool is_symbol(PyObject* o) {
  return symbol_type && (Py_TYPE(o) == symbol_type || PyType_IsSubtype(Py_TYPE(o), symbol_type));
}

inline bool is_numpy_symbol(PyObject* o) {
  return numpy_symbol_type && PyType_IsSubtype(Py_TYPE(o), numpy_symbol_type);
}

// Calls an operator. On symbols, returns a symbol. On arrays, runs the operator.
pybind11::object compose(const std::string& alias, const pybind11::tuple& args,
                         const pybind11::dict& kwargs);
// Like compose, with vectorcall arguments. Returns a new reference.
PyObject* compose_symbol(const std::string& alias, PyObject* const* args, size_t nargs,
                         PyObject* keywords);

}  // namespace mxlite::python
