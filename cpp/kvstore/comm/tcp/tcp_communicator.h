// Collectives between processes over TCP, with a connection between every two processes.
#pragma once
#include <memory>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/tcp/job.h"

namespace mxlite::tcp {

// Returns the group of all processes of the job; collective. Errors of this group, and of groups
// that split makes, name ranks by their number in the job.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Job> job);

}  // namespace mxlite::tcp
