// The parameter server as the rest of the program sees it. The server and its sockets are a
// plug-in: libmxlite_server.so is loaded when a job has servers, never by importing mxlite.
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

// An array on the servers.
struct StoredKey {
  StoredKey(std::string k, const TensorSpec& s) : key(std::move(k)), spec(s) {}
  const std::string key;
  const TensorSpec spec;
  Layout layout;
  engine::Var order;              // operations on one key follow each other
  std::atomic<uint64_t> step{0};  // pushes begun
  std::vector<float> residual;    // of compression; used by the push that is under way
};
using StoredKeyRef = std::shared_ptr<StoredKey>;

// Arrays are contiguous and in host memory, and belong to the operation until it is done.
struct ServerOperation {
  StoredKeyRef stored;
  NDArrayRef push, pull;                         // either or both
  NDArrayRef push_rows, pull_rows;               // int64 ids; null: the whole array
  int priority = 0;                              // larger ones go first
  std::function<void(std::exception_ptr)> done;  // once
};

// A worker's side: arrays on the servers, by key. Pushes and pulls go on in the background; what is
// written here blocks says so.
class ServerClient {
 public:
  virtual ~ServerClient() = default;
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;
  virtual int num_servers() const = 0;

  // Blocks. The values are those of rank 0; all workers call it for the same keys.
  virtual void init(const std::vector<std::string>& keys,
                    const std::vector<NDArrayRef>& values) = 0;
  // Value error for a key without init.
  virtual StoredKeyRef find(const std::string& key) = 0;
  // Never blocks.
  virtual void submit(ServerOperation operation) = 0;
  // A push whose array could not be computed: the others must not wait for it.
  virtual void report_missing_push(const StoredKey& stored, const std::string& why) noexcept = 0;

  // These block. Settings of the servers are sent by rank 0.
  virtual void set_sync(bool sync) = 0;
  virtual void set_optimizer(const std::string& name, const std::string& json,
                             const std::string& scope = "") = 0;
  virtual void update_optimizer(const std::string& json, const std::string& scope = "") = 0;
  virtual void set_compression(const Compression& how) = 0;
  virtual void command(int head, const std::string& text) = 0;
  // Any worker's: what is told to the servers' profilers. Throws what went wrong on a server.
  virtual void profile_servers(const std::string& name, const std::string& text) = 0;
  virtual void barrier() = 0;
  virtual uint64_t pushed(const std::string& key) = 0;  // this worker's pushes that servers have
  virtual std::string report() = 0;                     // JSON
  virtual void save_states(const std::string& path) = 0;
  virtual void load_states(const std::string& path) = 0;
  // Leaves the job when what is under way is done, or `at_once`: the others then take this worker
  // for lost. Idempotent. Throws only what a signal handler raises; the job is left then, too.
  virtual void close(bool at_once = false) = 0;
};

// Functions that the server calls in its program, on the thread that called run.
struct ServerHooks {
  std::function<void()> interrupted = [] {};  // asked ten times a second
  // A worker's command for the profiler of this process; an Error goes back to the worker.
  std::function<void(int rank, const std::string& name, const std::string& text)> profile =
      [](int, const std::string&, const std::string&) {
        fail(ErrorKind::kNotSupported, "this program has no profiler");
      };
};

// Interface of libmxlite_server.so. The environment (DMLC_*) describes the job; `version` is that
// of mxlite, which all processes share.
class ServerPlugin {
 public:
  virtual ~ServerPlugin() = default;
  // Blocks until all processes of the job have come; errors in bounded time.
  virtual std::shared_ptr<ServerClient> connect(const std::string& version) = 0;
  // Is the "scheduler" or a "server" until the job has ended; throws why it failed.
  virtual void run(const std::string& role, const std::string& version,
                   const ServerHooks& hooks) = 0;
};

// Loads the plug-in; an error says why it cannot be loaded.
ServerPlugin& server_plugin();

}  // namespace mxlite::store
