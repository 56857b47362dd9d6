// Libraries.cmake includes this header first in every file of this folder. Before Python 3.11,
// PyObject_Vectorcall is an inline function, which the linker cannot replace by the wrappers in
// gil.cc.
#pragma once
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
namespace mxlite::python {
PyObject* vectorcall(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* names);
}
#define PyObject_Vectorcall ::mxlite::python::vectorcall
#endif
