// A worker's side: arrays on the servers, by key. Pushes and pulls go on in the background; what is
// written here blocks says so.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpp/engine/var.h"
#include "cpp/kvstore/server/node.h"
#include "cpp/kvstore/server/placement.h"
#include "cpp/kvstore/store/compression.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::server {

using store::Compression;
using store::CompressionType;

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

class Client {
 public:
  // Blocks until all processes of the job have come; errors in bounded time.
  explicit Client(const Options& options);
  ~Client();

  int rank() const { return node_.rank(); }
  int num_workers() const { return options_.num_workers; }
  int num_servers() const { return options_.num_servers; }

  // Blocks. The values are those of rank 0; all workers call it for the same keys.
  void init(const std::vector<std::string>& keys, const std::vector<NDArrayRef>& values);
  // Value error for a key without init.
  StoredKeyRef find(const std::string& key);
  // Never blocks.
  void submit(ServerOperation operation);
  // A push whose array could not be computed: the others must not wait for it.
  void report_missing_push(const StoredKey& stored, const std::string& why) noexcept;

  // These block. Settings of the servers are sent by rank 0.
  void set_sync(bool sync);
  void set_optimizer(const std::string& name, const std::string& json,
                     const std::string& scope = "");
  void update_optimizer(const std::string& json, const std::string& scope = "");
  void set_compression(const Compression& how);
  void command(int head, const std::string& text);
  // Any worker's: what is told to the servers' profilers. Throws what went wrong on a server.
  void profile_servers(const std::string& name, const std::string& text);
  void barrier();
  uint64_t pushed(const std::string& key);  // this worker's pushes that the servers have
  std::string report();                     // JSON
  void save_states(const std::string& path);
  void load_states(const std::string& path);
  // Leaves the job when what is under way is done, or `at_once`: the others then take this worker
  // for lost. Idempotent. Throws only what a signal handler raises; the job is left then, too.
  void close(bool at_once = false);

 private:
  struct Progress;  // of one operation
  struct KeptPush {
    uint64_t step;
    Frame frame;
  };
  using PartKey = std::pair<std::string, uint32_t>;

  void say_goodbye();  // waits for what is under way
  void send_push(const ServerOperation& o, const std::shared_ptr<Progress>& progress);
  void send_push_rows(const ServerOperation& o, uint64_t step,
                      const std::shared_ptr<Progress>& progress);
  void send_pull(const ServerOperation& o, const std::shared_ptr<Progress>& progress);
  void send_pull_rows(const ServerOperation& o, const std::shared_ptr<Progress>& progress);
  void send_part(const StoredKey& stored, uint32_t part, PushHeader header, Buffer data,
                 int priority, const std::shared_ptr<Progress>& progress);
  void request(int server, Frame frame, std::string what, const std::shared_ptr<Progress>& progress,
               std::function<void(Reply&)> use);
  void note_durable(const PartKey& part, uint64_t step);
  void replay(int server);
  void tell_servers(int head, const std::string& name, const std::string& text);
  std::vector<Reply> call_all(std::vector<NodeRequest> requests);
  void check_open() const;

  const Options options_;
  Registered registered_;
  uint64_t barriers_ = 0, commands_ = 0;  // of the thread that calls; guarded by call_mutex_
  std::mutex call_mutex_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<std::string, StoredKeyRef> keys_;  // guarded by mutex_
  Compression compression_;                   // guarded by mutex_
  size_t under_way_ = 0;                      // operations; guarded by mutex_
  bool closed_ = false;                       // guarded by mutex_

  std::map<PartKey, std::deque<KeptPush>> kept_;  // of the reactor's thread
  Node node_;
};

}  // namespace mxlite::server
