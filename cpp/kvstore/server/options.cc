#include "cpp/kvstore/server/options.h"

#include <algorithm>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/link/address.h"

namespace mxlite::server {
namespace {

constexpr int64_t kMostNodes = 1 << 16;

int required_count(const char* name, int64_t least) {
  MX_CHECK(!env_string(name, "").empty(), "environment variable ", name,
           " must be set; start the job with tools/launch.py, or set DMLC_ROLE, DMLC_PS_ROOT_URI, "
           "DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER and DMLC_NUM_SERVER");
  const int64_t value = env_int(name, 0);
  MX_CHECK(value >= least && value <= kMostNodes, "environment variable ", name, " must be in [",
           least, ", ", kMostNodes, "], got ", value);
  return static_cast<int>(value);
}

int port_number(const char* name, int64_t fallback) {
  const int64_t value = env_int(name, fallback);
  MX_CHECK(value >= 0 && value <= 65535, "environment variable ", name,
           " must be a port of 0 to 65535, got ", value);
  return static_cast<int>(value);
}

double positive_seconds(const char* name, double fallback) {
  const double value = env_seconds(name, fallback);
  MX_CHECK(value > 0, "environment variable ", name, " must be seconds above 0, got ", value);
  return value;
}

// Returns the secret that all processes of a job share. Without a secret, any program that knows
// the scheduler's address could read and replace the weights. Therefore a job without
// MXLITE_PS_TOKEN must set MXLITE_INSECURE_SERVER and run only on this host.
std::string job_secret(const Options& o) {
  const std::string token = env_string("MXLITE_PS_TOKEN", "");
  if (!token.empty()) return token;
  MX_CHECK(env_int("MXLITE_INSECURE_SERVER", 0) != 0,
           "environment variable MXLITE_PS_TOKEN is missing: set it to one random text in all "
           "processes of the job (tools/launch.py does), or set MXLITE_INSECURE_SERVER=1 if every "
           "user of this host may read and change the weights");
  MX_CHECK(o.local(),
           "MXLITE_INSECURE_SERVER=1 with the scheduler at DMLC_PS_ROOT_URI=", o.root_host,
           ": only 127.0.0.1 and localhost may be used without a token; set MXLITE_PS_TOKEN");
  return str(o.root_host, ":", o.root_port);
}

}  // namespace

Role role_from_name(const std::string& name) {
  for (const Role role : {Role::kScheduler, Role::kServer, Role::kWorker})
    if (name == role_name(role)) return role;
  fail(ErrorKind::kValue, "DMLC_ROLE must be scheduler, server or worker, got '", name, "'");
}

bool Options::local() const { return is_loopback(root_host); }

Options options_from_environment(Role role) {
  Options o;
  o.role = role;
  o.num_workers = required_count("DMLC_NUM_WORKER", 1);
  o.num_servers = required_count("DMLC_NUM_SERVER", 1);
  o.root_host = env_string("DMLC_PS_ROOT_URI", o.root_host);
  o.root_port = port_number("DMLC_PS_ROOT_PORT", o.root_port);
  MX_CHECK(o.root_port > 0,
           "environment variable DMLC_PS_ROOT_PORT must be the scheduler's port, got 0");
  o.node_host = env_string("DMLC_NODE_HOST", "");
  const std::string interface = env_string("DMLC_INTERFACE", "");
  if (o.node_host.empty() && !interface.empty()) o.node_host = interface_address(interface);
  if (role == Role::kServer) o.port = port_number("PORT", 0);
  // The default is MPI's rank, because separate mpirun commands may start servers and workers.
  const int64_t mpi_rank = env_int("OMPI_COMM_WORLD_RANK", -1);
  o.rank = static_cast<int>(env_int("MXLITE_PS_RANK", env_int("DMLC_TASK_ID", mpi_rank)));
  o.key = key_of_secret(job_secret(o));
  o.timeout = positive_seconds("MXLITE_PS_TIMEOUT", o.timeout);
  // In ps-lite, 0 turns heartbeats off. In mxlite, 0 selects the default.
  const auto given = [](const char* name, double fallback) {
    const double value = env_seconds(name, 0);
    return value > 0 ? value : fallback;
  };
  o.heartbeat = given("PS_HEARTBEAT_INTERVAL", o.heartbeat);
  o.silence = given("PS_HEARTBEAT_TIMEOUT", std::max(o.silence, 3 * o.heartbeat));
  o.resend = given("PS_RESEND_TIMEOUT", o.resend * 1e3) * 1e-3;
  o.rejoin = env_seconds("MXLITE_PS_REJOIN", o.rejoin);
  o.big_array = env_int("MXNET_KVSTORE_BIGARRAY_BOUND", o.big_array);
  MX_CHECK(o.big_array > 0,
           "environment variable MXNET_KVSTORE_BIGARRAY_BOUND must be a number of elements above "
           "0, got ",
           o.big_array);
  o.staleness = env_int("MXLITE_PS_STALENESS", o.staleness);
  o.threads = static_cast<int>(env_int("MXLITE_PS_THREADS", 0));
  o.snapshot_dir = env_string("MXLITE_PS_SNAPSHOT_DIR", "");
  o.snapshot_updates = env_int("MXLITE_PS_SNAPSHOT_UPDATES", o.snapshot_updates);
  MX_CHECK(o.snapshot_updates > 0,
           "environment variable MXLITE_PS_SNAPSHOT_UPDATES must be a number above 0, got ",
           o.snapshot_updates);
  o.verbose = env_int("PS_VERBOSE", 0) > 0;
  return o;
}

}  // namespace mxlite::server
