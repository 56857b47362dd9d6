// The callable type of all operators. For example, mx.nd.softmax is an instance. One vectorcall
// function serves all operators. The schema of an operator determines its arguments.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/engine/engine.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::python {

void bind_ops(pybind11::module_& m);  // Op, list_ops, op
// Returns a callable of an operator under one of its names. If `composes` is true, calls without
// operands create nodes.
pybind11::object make_op_object(const OpSchema& op, std::string_view alias, bool composes = false);

// Returns the Python line that is running. This is fast, and the text is interned.
engine::Origin current_origin();

// Runs fn and returns its result. Converts C++ exceptions to a Python error and returns nullptr in
// that case.
PyObject* guarded(auto&& fn) noexcept;
void set_python_error() noexcept;  // call inside a catch (...) block

PyObject* guarded(auto&& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace mxlite::python
