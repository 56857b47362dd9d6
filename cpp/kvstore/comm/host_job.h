// Jobs of several processes without MPI. On one host, the launcher creates shared memory that only
// its user may open, and passes the random name of this memory to the processes in their
// environment. For several hosts, the launcher runs a rendezvous, and passes its address and the
// job's token.
#pragma once
#include <memory>
#include <string>

#include "cpp/kvstore/comm/world.h"

namespace mxlite {

namespace shm {
class SharedSegment;
}

// Environment variables that the launcher sets for the processes.
inline constexpr const char* kJobSize = "MXLITE_JOB_SIZE";
inline constexpr const char* kJobRank = "MXLITE_JOB_RANK";
inline constexpr const char* kJobMemory = "MXLITE_JOB_MEMORY";    // "/name:bytes of a buffer"
inline constexpr const char* kJobAddress = "MXLITE_JOB_ADDRESS";  // "host:port"
inline constexpr const char* kJobToken = "MXLITE_JOB_TOKEN";

// Shared memory that the launcher creates. The processes find each other in this memory.
class JobMemory {
 public:
  // Throws a communicator error if the host has too little shared memory.
  explicit JobMemory(int processes);
  ~JobMemory();  // removes the name; processes that have joined keep using the memory
  JobMemory& operator=(JobMemory&&) = delete;  // neither copied nor moved

  const std::string& text() const { return text_; }  // value of kJobMemory

 private:
  std::shared_ptr<shm::SharedSegment> segment_;
  std::string text_;
};

// Returns the number of processes that the launcher has started, or 1 without a launcher.
int host_job_size();
// Collective over all processes of the job. The first call joins the job. Later calls create new
// groups. Throws a value error if an environment variable is malformed.
World make_host_job_world(const WorldRequest& request);

}  // namespace mxlite
