// Converts Python exceptions to errors of the core.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Raises an exception. Replaces bytes of the text that are not UTF-8.
void set_exception(pybind11::handle type, const char* text);

// Throws an Error if the class of `raised` is a class of mxlite.base. Otherwise rethrows the
// exception unchanged.
[[noreturn]] void rethrow_as_error(const pybind11::error_already_set& raised);

}  // namespace mxlite::python
