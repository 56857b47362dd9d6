// Interface of the parameter server's bindings for module.cc.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

void bind_server(pybind11::module_& m);

}  // namespace mxlite::python
