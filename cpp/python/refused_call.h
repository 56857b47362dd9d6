// Requests of calls that a rank cannot make, because what they need has failed.
#pragma once
#include <exception>
#include <string>

#include "cpp/kvstore/horovod/request.h"

namespace mxlite::python {

// Returns the text of an error without its source locations, which exist on this rank only.
std::string cause_text(std::string text);

// Returns the request with which the other ranks get the cause.
horovod::RequestRef refused(const horovod::Request& request, const std::exception_ptr& cause);

}  // namespace mxlite::python
