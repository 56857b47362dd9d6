#pragma once
#include <string>

namespace mxlite {

// Returns the folder of libmxlite.so, where its plug-ins are too; it ends with a slash.
std::string own_folder();

}  // namespace mxlite
