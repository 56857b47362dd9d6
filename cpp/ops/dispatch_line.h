// Prints which kernel takes a call, for MXLITE_VERBOSE=dispatch.
#pragma once
#include <string>

namespace mxlite {

// Prints a line if the variable asks for it. `reason`: why the kernel does not take the call;
// nullptr: it does.
void print_dispatch(const std::string& op, const char* kernel, const char* reason);

}  // namespace mxlite
