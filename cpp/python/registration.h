// Handles objects of bound classes when memory runs out.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Lets the module's classes make objects without memory for pybind11's table of them. pybind11
// fills it where an exception ends the process or frees the object twice.
void make_registration_optional(const pybind11::module_& module);

}  // namespace mxlite::python
