// The parameter server, as module.cc sees it.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

void bind_server(pybind11::module_& m);

}  // namespace mxlite::python
