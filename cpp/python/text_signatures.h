// Signatures of native functions for `inspect.signature` and for editors.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Sets the text signatures of the module's functions and of the methods of its classes. Does not
// change docstrings.
void add_text_signatures(const pybind11::module_& m);

}  // namespace mxlite::python
