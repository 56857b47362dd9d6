// Prints which kernel runs a call, for MXLITE_VERBOSE=dispatch.
#pragma once
#include <string>

namespace mxlite {

// Prints a line if MXLITE_VERBOSE=dispatch is set. `reason` says why the kernel does not support
// the call; if it is nullptr, the kernel runs the call.
void print_dispatch(const std::string& op, const char* kernel, const char* reason);

}  // namespace mxlite
