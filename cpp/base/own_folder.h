#pragma once
#include <string>

namespace mxlite {

// Returns the folder of libmxlite.so, which also holds its plug-ins; it ends with a slash.
std::string own_folder();

}  // namespace mxlite
