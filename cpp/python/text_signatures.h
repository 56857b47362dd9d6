// Signatures of native functions for `inspect.signature` and for editors.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Gives the functions of a module and the methods of its classes the text from which Python reads
// their parameters. Their docstrings stay as they are.
void add_text_signatures(const pybind11::module_& m);

}  // namespace mxlite::python
