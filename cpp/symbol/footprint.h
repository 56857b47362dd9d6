// Memory of the results of a bound symbol, which an executor's debug_str reports.
#pragma once
#include <set>
#include <string>

#include "cpp/symbol/inference.h"

namespace mxlite::symbol {

// Returns the most bytes of results that are alive at once, forward and backward, after types and
// shapes were inferred. A result lives until its last use, one that backward may need until the
// end, a gradient until it is passed on. Arguments and their gradients, which a user owns, do not
// count. Compiled graphs may need less, because they compute in place. `differentiated`: variables
// that get gradients.
size_t bytes_of_results(const Inference& inference, const std::set<std::string>& differentiated);

}  // namespace mxlite::symbol
