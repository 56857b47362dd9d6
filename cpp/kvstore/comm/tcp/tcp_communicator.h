// Collectives between processes over TCP, every two of which have a connection.
#pragma once
#include <memory>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/tcp/job.h"

namespace mxlite::tcp {

// Returns the group of all processes of the job; collective. Errors call ranks by their number in
// the job, in groups that split makes as well.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Job> job);

}  // namespace mxlite::tcp
