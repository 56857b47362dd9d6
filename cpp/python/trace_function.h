// Forward functions written in Python as traces call them.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/graph/cached_graph.h"

namespace mxlite::python {

// An array or a sequence of them; a type error names `who`.
graph::ArrayList arrays_from(pybind11::handle o, const char* who);

// The callable is borrowed: the caller of the function must hold the object that owns it.
graph::TraceFn trace_function(PyObject* callable);

// The CachedGraph of a function that borrows what `owner` holds.
pybind11::object make_cached_graph(graph::TraceFn trace, const pybind11::object& owner,
                                   const std::string& name);

}  // namespace mxlite::python
