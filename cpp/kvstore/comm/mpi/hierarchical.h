// Collectives of several hosts: shared memory inside a host, MPI between hosts.
#pragma once
#include <memory>

#include "cpp/kvstore/comm/mpi/mpi_communicator.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::mpi {

// Returns the group of `comm` together with the groups of its hosts; collective.
World make_world_of(OwnedComm comm);

}  // namespace mxlite::mpi
