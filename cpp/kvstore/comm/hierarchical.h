// Collectives of several hosts. They use shared memory inside a host and a network (MPI, TCP)
// between hosts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite {

// Returns a text that is equal in processes that can share memory and differs between hosts. Tests
// set MXLITE_COMM_HOST to make processes of one host look like several hosts.
std::string host_identity();

// Returns the host_identity of each rank. Collective.
std::vector<std::string> gather_hosts(Communicator& group);

struct HostLayout {
  Topology topology;
  std::vector<int> here;  // ranks on this rank's host
};
HostLayout host_layout(const std::vector<std::string>& hosts, int rank);

// Finds the ranks of a group that share a host, and forms a group for each host. Collective.
// `network` connects all ranks. `members` are their ranks in the job, for error texts. If all ranks
// are on one host, the result uses only shared memory.
World make_hierarchical_world(std::unique_ptr<Communicator> network, std::vector<int> members);

}  // namespace mxlite
