// Checks that the requests of all ranks for one name fit together.
#pragma once
#include <span>
#include <string>

#include "cpp/jobs/request.h"

namespace mxlite::jobs {

// requests[i] is from rank members[i]. Returns "" if they fit; else a text that names ranks, the
// tensor and both values.
std::string mismatch(std::span<const Request> requests, std::span<const int> members);

}  // namespace mxlite::jobs
