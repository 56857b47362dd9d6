// The part of Open MPI 5 (ULFM) that lets a job continue without ranks that died. The functions of
// ULFM are looked up at run time, because Open MPI 4.1 lacks them.
#pragma once
#include <mpi.h>

#include <string>

namespace mxlite::mpi::ulfm {

// Returns the reason why ULFM cannot be used, or an empty text if it can be used.
std::string obstacle();

// Makes every pending and later call in the communicator fail on all ranks. Has no effect without
// ULFM.
void revoke(MPI_Comm comm) noexcept;
// Returns a communicator of the surviving ranks. Collective over these ranks.
MPI_Comm shrink(MPI_Comm comm);
// Returns whether all ranks are alive and pass true. The result is the same on all ranks.
bool agree(MPI_Comm comm, bool yes);

}  // namespace mxlite::mpi::ulfm
