#pragma once
#include <string>

namespace mxlite {

// Returns the folder of libmxlite.so with a slash at the end. The folder also holds the plug-ins.
std::string own_folder();

}  // namespace mxlite
