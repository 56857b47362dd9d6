// How a job loses and gains processes (Open MPI 5 with ULFM).
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cpp/kvstore/comm/mpi/mpi_communicator.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::mpi {

// The ranks of the job that live, in their order. Collective over them.
OwnedComm living(MPI_Comm job);

// With the processes that are missing, as the last ranks; as it was if they cannot be started.
// Collective.
OwnedComm started_more(OwnedComm job, const RebuildRequest& request);

// In a process that started_more has made: the job; null in others.
OwnedComm joined_parents();

// MPI has calls that wait without limit and cannot be ended: after so many seconds this process
// ends with a text.
class EndAfter {
 public:
  EndAfter(double seconds, std::string why, int code = 75);  // EX_TEMPFAIL: try again
  ~EndAfter();
  EndAfter(const EndAfter&) = delete;
  EndAfter& operator=(const EndAfter&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace mxlite::mpi
