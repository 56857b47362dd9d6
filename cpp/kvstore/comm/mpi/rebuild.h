// Removes lost processes from a job and adds new processes (Open MPI 5 with ULFM).
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cpp/kvstore/comm/mpi/mpi_communicator.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::mpi {

// Returns the surviving ranks of the job in their order. Collective over these ranks.
OwnedComm living(MPI_Comm job);

// Starts missing processes, which become the last ranks. If the processes cannot be started,
// returns the job unchanged. Collective.
OwnedComm started_more(OwnedComm job, const RebuildRequest& request);

// If started_more() has started this process, returns a communicator of the whole job. Otherwise
// returns null.
OwnedComm joined_parents();

// Time limit for MPI calls that may never return and cannot be interrupted. If this object is not
// destroyed within `seconds`, it ends the process with a message.
class EndAfter {
 public:
  EndAfter(double seconds, std::string why, int code = 75);  // EX_TEMPFAIL: try again
  ~EndAfter();
  EndAfter& operator=(EndAfter&&) = delete;  // neither copied nor moved

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace mxlite::mpi
