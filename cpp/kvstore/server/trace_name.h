// Names of what the profiler sees of a server.
#pragma once
#include <string>

namespace mxlite::server {

// "merge fc1_weight" while the profiler is on, else "merge"; kept for good.
const char* trace_name(const char* what, const std::string& key);

}  // namespace mxlite::server
