// Reads environment variables. See docs/reference/environment.md for their names and
// meanings.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

std::string env_string(const char* name, const std::string& fallback);
// Returns the variable's value or `fallback`. Throws a value error that names the variable if its
// text is not an integer.
int64_t env_int(const char* name, int64_t fallback);

}  // namespace mxlite
