// Bindings of jobs of several processes. module.cc calls these functions.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

void bind_comm(pybind11::module_& m);
void bind_buckets(pybind11::module_& m);
void bind_device_group(pybind11::module_& m);

}  // namespace mxlite::python
