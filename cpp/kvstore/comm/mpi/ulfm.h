// The part of Open MPI 5 that lets a job live on without ranks that died (ULFM). Its functions are
// looked up at run time: Open MPI 4.1 has none of them.
#pragma once
#include <mpi.h>

#include <string>

namespace mxlite::mpi::ulfm {

// Returns what is missing, and nothing if ranks may die.
std::string obstacle();

// Makes every pending and later call in the communicator fail, on all its ranks. Nothing where
// ULFM is not on.
void revoke(MPI_Comm comm) noexcept;
// The ranks that live. Collective over them.
MPI_Comm shrink(MPI_Comm comm);
// Returns whether all ranks agree and are alive; the same on all ranks.
bool agree(MPI_Comm comm, bool yes);

}  // namespace mxlite::mpi::ulfm
