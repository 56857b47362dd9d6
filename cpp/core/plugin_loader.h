// Loads plug-ins that need libraries of Python packages.
#pragma once
#include <array>
#include <string>
#include <vector>

namespace mxlite {

// Sets folders of Python packages. If the system's loader does not find a library, nvidia/*/lib
// below each folder is searched.
void set_package_folders(std::vector<std::string> folders);

// Returns the path of the CUDA plug-in. The plug-in is in the folder of libmxlite.so or in the
// Python package of the wheel mxlite-cuda13. Returns an empty text if neither contains the plug-in.
std::string cuda_library();

// Returns dlopen's handle, or null and the reason if a library is missing. A name without a folder
// refers to a library of the system or of a package.
void* load_plugin(const std::string& path, std::string& why_not);
// Like load_plugin, but for a library that the system's loader finds by name or that a Python
// package contains.
void* load_library(const std::string& name, std::string& why_not);

using LibraryVersion = std::array<int, 3>;  // major, minor, patch
// Returns an empty text if the library version `found` at run time is compatible with the version
// `built` at compile time. Compatible versions have equal major versions, and the minor version of
// `found` is not lower. Otherwise returns an error text with a remedy.
std::string version_problem(const char* library, LibraryVersion found, LibraryVersion built,
                            const std::string& path);

}  // namespace mxlite
