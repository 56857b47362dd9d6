// Names of a server's events for the profiler.
#pragma once
#include <string>

namespace mxlite::server {

// Returns a text such as "merge fc1_weight" while the profiler is on, otherwise "merge". The text
// is never freed.
const char* trace_name(const char* what, const std::string& key);

}  // namespace mxlite::server
