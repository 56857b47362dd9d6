// Options of a job with a parameter server. They are read from the environment; see
// docs/howto/parameter_server.md.
#pragma once
#include <cstdint>
#include <string>

#include "cpp/kvstore/comm/link/seal.h"
#include "cpp/kvstore/comm/members/messages.h"

namespace mxlite::server {

using members::Role;

inline constexpr members::JobKind kServerJob = {
    "parameter server", "the scheduler",    "worker", "DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT",
    "MXLITE_PS_TOKEN",  "MXLITE_PS_TIMEOUT"};

Role role_from_name(const std::string& name);  // throws a value error for other names

struct Options {
  Role role = Role::kWorker;
  std::string root_host = "127.0.0.1";
  int root_port = 9091;
  int num_workers = 1;
  int num_servers = 1;
  std::string node_host;        // DMLC_NODE_HOST, or the address of DMLC_INTERFACE, or empty
  int port = 0;                 // port of a server; 0 selects any port
  int rank = -1;                // Requested rank; -1 for any.
  SealKey key;                  // key of the job; frames with another key are rejected
  double timeout = 60;          // limit in seconds for any wait for another process
  double heartbeat = 1;         // seconds between heartbeats
  double silence = 5;           // seconds without heartbeat after which a process counts as dead
  double resend = 1;            // seconds after which a request without an answer is sent again
  double rejoin = 0;            // seconds within which a lost process may come back
  int64_t big_array = 1000000;  // arrays of at least this many elements are split over all servers
  int64_t staleness = -1;       // in async mode, how many steps a worker may be ahead of the
                                // slowest; -1 for any number
  int threads = 0;              // threads of a server; 0 selects a number that depends on the cores
  std::string snapshot_dir;     // folder of servers' snapshots; empty if none are written
  int64_t snapshot_updates = 10;  // number of updates of one part between snapshots
  bool verbose = false;
  std::string version;  // version of mxlite

  bool local() const;  // returns whether all processes are on this host
};

// Reads the options. Throws a value error that names the variable. The role determines which
// variables are required.
Options options_from_environment(Role role);

}  // namespace mxlite::server
