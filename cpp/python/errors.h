// Python exceptions as errors of the core.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Raises an exception; bytes of the text that are not UTF-8 are replaced.
void set_exception(pybind11::handle type, const char* text);

// Throws the core's error for an exception of mxlite.base; any other one as it is.
[[noreturn]] void rethrow_as_error(const pybind11::error_already_set& raised);

}  // namespace mxlite::python
