// Messages for users about ranks that others wait for.
#pragma once
#include <string>
#include <vector>

#include "cpp/jobs/negotiator.h"

namespace mxlite::jobs {

std::string ranks_text(const std::vector<int>& ranks);  // "rank 1", "ranks 0, 2"

// Lists names by the ranks that have not announced them for this many seconds.
std::string stall_warning(const std::vector<Stall>& stalls, double seconds);
// Returns why all operations fail.
std::string given_up_text(const std::vector<Stall>& stalls);

}  // namespace mxlite::jobs
