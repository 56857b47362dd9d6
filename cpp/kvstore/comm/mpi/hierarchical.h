// Collectives of several hosts: through shared memory inside a host, through MPI between them.
#pragma once
#include <memory>

#include "cpp/kvstore/comm/mpi/mpi_communicator.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::mpi {

// The group of `comm` with the groups of its hosts; collective.
World make_world_of(OwnedComm comm);

}  // namespace mxlite::mpi
