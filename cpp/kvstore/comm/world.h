// The group of all processes of the job, and its backend. MPI is a plug-in. Its shared object is
// loaded when a job of several processes needs it, and not when mxlite is imported.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// `local` counts the processes of one host. `cross` counts the processes with the same local rank
// on all hosts.
struct Topology {
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;
  bool homogeneous = true;  // whether all hosts have the same number of processes
};

struct World {
  std::unique_ptr<Communicator> communicator;
  Topology topology;
};

struct WorldRequest {
  std::vector<int> ranks;                  // ranks in the job; empty means all ranks
  const void* mpi_communicator = nullptr;  // address of an MPI_Comm that is used instead
};

// Describes how the job continues after the loss of a rank, or how it grows.
struct RebuildRequest {
  int processes = 0;                 // target number of processes; missing ones are started
  std::vector<std::string> command;  // command line of a new process
  std::string folder;                // working directory of a new process
  std::string hosts;                 // "host:slots,..." of hosts that the job has not used yet
  double start_timeout = 60;         // limit in seconds until new processes have joined
};

// Interface of libmxlite_mpi.so. All calls must be made on one thread.
class MpiPlugin {
 public:
  virtual ~MpiPlugin() = default;
  // Initializes MPI if necessary. Collective over the requested ranks.
  virtual World make_world(const WorldRequest& request) = 0;
  // Returns the reason why the job cannot continue without a lost rank, or an empty text if it can
  // continue.
  virtual std::string recovery_obstacle() = 0;
  // Removes the lost ranks and starts new processes. Collective over all surviving ranks. The next
  // call of make_world returns the new job. A new process joins the job by its first call of
  // make_world.
  virtual void rebuild(const RebuildRequest& request) = 0;
  // Ends MPI if make_world initialized it. Waits for the other ranks.
  virtual void finalize() = 0;
  virtual bool threads_supported() const = 0;  // whether MPI_THREAD_MULTIPLE is available
  virtual std::string library_version() const = 0;
};

enum class Launcher { kNone, kOpenMpi, kOther, kHostJob };
// Determines from the environment which launcher has started this process. kHostJob means launch.py
// without MPI.
Launcher launcher();
int launched_processes();  // returns 1 if there is no launcher

// Loads the plug-in and libmpi. If a file is missing, throws a communicator error that says what to
// install.
MpiPlugin& mpi_plugin();
bool mpi_plugin_loaded();
// Returns whether the plug-in is part of this build.
bool mpi_built();

// Returns the job of the launcher. Without a launcher, returns a job of only this process.
World make_world(const WorldRequest& request);

}  // namespace mxlite
