// Wraps Python forward functions for tracing.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/graph/cached_graph.h"

namespace mxlite::python {

// Converts an array or a sequence of arrays. Throws a type error that names `who` for other
// objects.
graph::ArrayList arrays_from(pybind11::handle o, const char* who);

// The returned function borrows `callable`, which must outlive it.
graph::TraceFn trace_function(PyObject* callable);

// Returns a CachedGraph of a function that borrows Python objects, which `owner` keeps alive.
pybind11::object make_cached_graph(graph::TraceFn trace, const pybind11::object& owner,
                                   const std::string& name);

}  // namespace mxlite::python
