// A worker's client of the servers. It uses the connections of its JobMember.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/server/job_member.h"
#include "cpp/kvstore/store/server_client.h"

namespace mxlite::server {

using store::Compression;
using store::CompressionType;
using store::Layout;
using store::make_layout;
using store::ServerPart;

using store::ServerOperation;
using store::StoredKey;
using store::StoredKeyRef;

class Client final : public store::ServerClient {
 public:
  // Blocks until all processes of the job have registered. Throws if this takes longer than the
  // timeout.
  explicit Client(const Options& options);
  ~Client() override;

  int rank() const override { return member_.rank(); }
  int num_workers() const override { return options_.num_workers; }
  int num_servers() const override { return options_.num_servers; }
  void init(const std::vector<std::string>& keys, const std::vector<NDArrayRef>& values) override;
  StoredKeyRef find(const std::string& key) override;
  void submit(ServerOperation operation) override;
  void report_missing_push(const StoredKey& stored, const std::string& why) noexcept override;
  void set_sync(bool sync) override;
  void set_optimizer(const std::string& name, const std::string& json,
                     const std::string& scope = "") override;
  void update_optimizer(const std::string& json, const std::string& scope = "") override;
  void set_compression(const Compression& how) override;
  void command(int head, const std::string& text) override;
  void profile_servers(const std::string& name, const std::string& text) override;
  void barrier() override;
  uint64_t pushed(const std::string& key) override;
  std::string report() override;
  void save_states(const std::string& path) override;
  void load_states(const std::string& path) override;
  void close(bool at_once = false) override;

 private:
  struct Progress;  // state of one operation
  struct KeptPush {
    uint64_t step;
    Frame frame;
  };
  using PartKey = std::pair<std::string, uint32_t>;

  void say_goodbye();  // waits for operations in flight and then leaves the job
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
  std::vector<Reply> call_all(std::vector<MemberRequest> requests);
  void check_open() const;

  const Options options_;
  Registered registered_;
  uint64_t barriers_ = 0, commands_ = 0;  // numbers of the last calls; guarded by call_mutex_
  std::mutex call_mutex_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<std::string, StoredKeyRef> keys_;  // guarded by mutex_
  Compression compression_;                   // guarded by mutex_
  size_t under_way_ = 0;                      // operations in flight; guarded by mutex_
  bool closed_ = false;                       // guarded by mutex_

  std::map<PartKey, std::deque<KeptPush>> kept_;  // used only on the reactor thread
  JobMember member_;
};

}  // namespace mxlite::server
