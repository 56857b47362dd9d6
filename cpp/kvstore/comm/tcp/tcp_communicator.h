// Collectives between processes over TCP. Every two processes share a connection.
#pragma once
#include <memory>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/tcp/job.h"

namespace mxlite::tcp {

// Returns the group of all processes of the job. Collective. Errors of this group, and of groups
// that are split from it, name ranks by their number in the job.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Job> job);

}  // namespace mxlite::tcp
