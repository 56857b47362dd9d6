// Describes the schemas of operators for Python.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "cpp/ops/op_schema.h"

namespace mxlite::python {

std::string doc_of(const OpSchema& op);   // a callable's __doc__
void bind_schemas(pybind11::module_& m);  // describe_op, list_ops

}  // namespace mxlite::python
