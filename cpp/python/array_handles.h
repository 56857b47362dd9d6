// Handles of arrays in the C interface of MXNet 1.x. A handle is the address of an NDArray object.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::python {

// Returns a ctypes.c_void_p. It is valid as long as the object that it points to.
pybind11::object handle_to_python(const void* object);

// Returns the handle of an array that only C code owns at this point.
void* give_handle(NDArrayRef array);
// Returns the array of a handle from give_handle and ends C's ownership of it. Throws a value error
// for all other handles.
NDArrayRef take_handle(void* handle);

}  // namespace mxlite::python
