// The part of Open MPI 5 that lets a job continue without ranks that died (ULFM). Its functions are
// looked up at run time, because Open MPI 4.1 lacks them.
#pragma once
#include <mpi.h>

#include <string>

namespace mxlite::mpi::ulfm {

// Returns why ULFM cannot be used, or an empty text if it can.
std::string obstacle();

// Makes every pending and later call in the communicator fail on all ranks; no-op without ULFM.
void revoke(MPI_Comm comm) noexcept;
// Returns a communicator of the surviving ranks. Collective over them.
MPI_Comm shrink(MPI_Comm comm);
// Returns whether all ranks pass true and are alive; the same value on all ranks.
bool agree(MPI_Comm comm, bool yes);

}  // namespace mxlite::mpi::ulfm
