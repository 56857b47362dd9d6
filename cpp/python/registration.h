// Handles objects of bound classes when memory runs out.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Makes the module's classes tolerate bad_alloc while pybind11 adds an object to its instance
// table; in pybind11, that exception ends the process or frees the object twice.
void make_registration_optional(const pybind11::module_& module);

}  // namespace mxlite::python
