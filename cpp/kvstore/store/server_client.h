// Interface of the parameter server for the rest of the program. The server and its sockets are a
// plug-in. libmxlite_server.so is loaded when a job has servers, and not when mxlite is imported.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/engine/var.h"
#include "cpp/kvstore/store/compression.h"
#include "cpp/kvstore/store/placement.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::store {

// A worker's record of one array on the servers.
struct StoredKey {
  StoredKey(std::string k, const TensorSpec& s) : key(std::move(k)), spec(s) {}
  const std::string key;
  const TensorSpec spec;
  Layout layout;
  engine::Var order;              // orders this worker's operations on the key
  std::atomic<uint64_t> step{0};  // number of pushes that this worker has begun
  std::vector<float> residual;    // residual of compression; used only by the push in flight
};
using StoredKeyRef = std::shared_ptr<StoredKey>;

// Arrays must be contiguous and in host memory. They belong to the operation until it is done.
struct ServerOperation {
  StoredKeyRef stored;
  NDArrayRef push, pull;                         // null if not part of the operation
  NDArrayRef push_rows, pull_rows;               // int64 row ids; null for the whole array
  int priority = 0;                              // operations with larger values are sent first
  std::function<void(std::exception_ptr)> done;  // called once
};

// A worker's client for arrays on the servers. Keys identify the arrays. Pushes and pulls run in
// the background. The comments say which functions block.
class ServerClient {
 public:
  virtual ~ServerClient() = default;
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;
  virtual int num_servers() const = 0;

  // Blocks. All workers must call it for the same keys. The values of rank 0 are used.
  virtual void init(const std::vector<std::string>& keys,
                    const std::vector<NDArrayRef>& values) = 0;
  // Throws a value error unless the key was passed to init.
  virtual StoredKeyRef find(const std::string& key) = 0;
  // Returns without blocking.
  virtual void submit(ServerOperation operation) = 0;
  // Reports a push whose array could not be computed, so that other workers do not wait for the
  // push.
  virtual void report_missing_push(const StoredKey& stored, const std::string& why) noexcept = 0;

  // The functions below block. Only rank 0 sends settings to the servers.
  virtual void set_sync(bool sync) = 0;
  virtual void set_optimizer(const std::string& name, const std::string& json,
                             const std::string& scope = "") = 0;
  virtual void update_optimizer(const std::string& json, const std::string& scope = "") = 0;
  virtual void set_compression(const Compression& how) = 0;
  virtual void command(int head, const std::string& text) = 0;
  // Sends a command to the servers' profilers. Any worker may call this function. Throws if a
  // server has failed.
  virtual void profile_servers(const std::string& name, const std::string& text) = 0;
  virtual void barrier() = 0;
  virtual uint64_t pushed(const std::string& key) = 0;  // returns the number of pushes that servers
                                                        // have received
  virtual std::string report() = 0;                     // returns JSON
  virtual void save_states(const std::string& path) = 0;
  virtual void load_states(const std::string& path) = 0;
  // Waits for operations in flight and then leaves the job. If `at_once` is true, does not wait,
  // and other processes treat this worker as lost. Idempotent. Throws only exceptions of a signal
  // handler, after the worker has left.
  virtual void close(bool at_once = false) = 0;
};

// Functions that the server calls in its process, on the thread that called run.
struct ServerHooks {
  std::function<void()> interrupted = [] {};  // called ten times a second
  // Handles a worker's command for this process's profiler. An Error is sent to the worker.
  std::function<void(int rank, const std::string& name, const std::string& text)> profile =
      [](int, const std::string&, const std::string&) {
        fail(ErrorKind::kNotSupported, "this program has no profiler");
      };
};

// Interface of libmxlite_server.so. The environment (DMLC_*) describes the job. `version` is the
// version of mxlite, which must be the same in all processes.
class ServerPlugin {
 public:
  virtual ~ServerPlugin() = default;
  // Blocks until all processes of the job have registered. Throws if this takes longer than the
  // timeout.
  virtual std::shared_ptr<ServerClient> connect(const std::string& version) = 0;
  // Runs as the "scheduler" or a "server" until the job ends. Throws if the job fails.
  virtual void run(const std::string& role, const std::string& version,
                   const ServerHooks& hooks) = 0;
};

// Loads the plug-in. Throws an error with the reason if the plug-in cannot be loaded.
ServerPlugin& server_plugin();

}  // namespace mxlite::store
