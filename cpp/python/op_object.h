// The callable type of all operators; mx.nd.softmax is an instance. One vectorcall function serves
// all operators and gets their arguments from the schema.
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/engine/engine.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::python {

void bind_ops(pybind11::module_& m);  // Op, list_ops, op
// Makes the callable of an operator under one of its names. If `composes`, calls without operands
// make nodes.
pybind11::object make_op_object(const OpSchema& op, std::string_view alias, bool composes = false);

// Returns the Python line that is running. Fast; the text is interned.
engine::Origin current_origin();

// Runs fn and converts C++ exceptions to a Python error; returns nullptr in that case.
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
