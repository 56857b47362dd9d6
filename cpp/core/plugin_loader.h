// Loads a plug-in whose libraries may be those of Python packages.
#pragma once
#include <array>
#include <string>
#include <vector>

namespace mxlite {

// Folders of Python packages: libraries that the system's loader does not find are looked for in
// nvidia/*/lib below each of them.
void set_package_folders(std::vector<std::string> folders);

// Returns dlopen's handle, or null and the reason if a library is missing. A name without a folder
// is that of a library of the system or of a package.
void* load_plugin(const std::string& path, std::string& why_not);
// The same for a library that the system's loader finds by its name, or that a Python package has.
void* load_library(const std::string& name, std::string& why_not);

using LibraryVersion = std::array<int, 3>;  // major, minor, patch
// Empty where the library `found` at run time serves what was compiled for the version `built`:
// the major version is equal, the minor one not lower. Otherwise what to do about it.
std::string version_problem(const char* library, LibraryVersion found, LibraryVersion built,
                            const std::string& path);

}  // namespace mxlite
