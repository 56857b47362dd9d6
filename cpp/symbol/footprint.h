// Estimates the memory of a bound symbol's results, for an executor's debug_str.
#pragma once
#include <set>
#include <string>

#include "cpp/symbol/inference.h"

namespace mxlite::symbol {

// Returns the peak number of bytes of results that are alive at the same time in forward and
// backward. Call after types and shapes were inferred. A result is alive until its last use, or
// until the end if backward may need it. A gradient is alive until its use. Arguments and their
// gradients belong to the user and do not count. Compiled graphs may need less memory, because they
// compute in place. `differentiated` are the variables that get gradients.
size_t bytes_of_results(const Inference& inference, const std::set<std::string>& differentiated);

}  // namespace mxlite::symbol
