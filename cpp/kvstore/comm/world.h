// The group of all processes of the job, and what it runs on. MPI is a plug-in: its shared object
// is loaded when a job of several processes asks for it, never by importing mxlite.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// Local: among the processes of one host. Cross: among those with the same local rank.
struct Topology {
  int local_rank = 0, local_size = 1;
  int cross_rank = 0, cross_size = 1;
  bool homogeneous = true;  // as many processes on each host
};

struct World {
  std::unique_ptr<Communicator> communicator;
  Topology topology;
};

struct WorldRequest {
  std::vector<int> ranks;                  // of the job; empty: all
  const void* mpi_communicator = nullptr;  // address of an MPI_Comm that is used instead
};

// The job as it goes on after a loss, or grows.
struct RebuildRequest {
  int processes = 0;                 // new ones are started while there are fewer
  std::vector<std::string> command;  // of a new process
  std::string folder;                // in which it starts
  std::string hosts;                 // "host:slots,..." that the job has not used yet
  double start_timeout = 60;         // seconds until new processes must have joined
};

// What libmxlite_mpi.so offers. All calls on one thread.
class MpiPlugin {
 public:
  virtual ~MpiPlugin() = default;
  // Initializes MPI unless somebody has. Collective over the ranks asked for.
  virtual World make_world(const WorldRequest& request) = 0;
  // Why the job cannot go on without a rank that is lost; empty if it can.
  virtual std::string recovery_obstacle() = 0;
  // Collective over all ranks that live: leaves the lost ones out and starts new processes. The
  // next make_world is that of the new job. A new process's own first make_world joins it.
  virtual void rebuild(const RebuildRequest& request) = 0;
  // If make_world has initialized MPI: ends it. Waits for the other ranks.
  virtual void finalize() = 0;
  virtual bool threads_supported() const = 0;  // MPI_THREAD_MULTIPLE
  virtual std::string library_version() const = 0;
};

enum class Launcher { kNone, kOpenMpi, kOther };
// By the environment: was this process started by mpirun, and of which MPI?
Launcher launcher();
int launched_processes();  // 1 without a launcher

// Loads the plug-in and libmpi; a communicator error says what is missing and what to install.
MpiPlugin& mpi_plugin();
bool mpi_plugin_loaded();
// Is the plug-in part of this build?
bool mpi_built();

// The job of the launcher, else this process alone.
World make_world(const WorldRequest& request);

}  // namespace mxlite
