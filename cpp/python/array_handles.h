// Handles of arrays in the C interface of MXNet 1.x: addresses of NDArray objects.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::python {

// Returns a ctypes.c_void_p, which is valid as long as the object that it points to.
pybind11::object handle_to_python(const void* object);

// Returns the handle of an array that only C code owns so far.
void* give_handle(NDArrayRef array);
// Returns such an array and ends C's ownership of it; throws a value error for any other handle.
NDArrayRef take_handle(void* handle);

}  // namespace mxlite::python
