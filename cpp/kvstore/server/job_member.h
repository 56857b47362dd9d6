// A server or worker as a member of its job. A worker also has connections to servers.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/members/member.h"
#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/server/options.h"

namespace mxlite::server {

using members::kScheduler;
using members::MemberRequest;
using members::MemberStats;

class JobMember final : public members::Member {
 public:
  // Called on the reactor thread.
  struct Events {
    std::function<void(const JobState& now)> changed = [](const JobState&) {};
    std::function<void(const std::string& why)> failed = [](const std::string&) {};
    // Called for frames from a worker.
    std::function<void(ConnectionId, Frame)> frame = [](ConnectionId, Frame) {};
    std::function<void(ConnectionId)> closed = [](ConnectionId) {};
    // Called after a server has been restarted. Repeats requests whose effect the server may have
    // lost.
    std::function<void(int server)> restored = [](int) {};
    std::function<void()> tick = [] {};
  };

  explicit JobMember(const Options& options);  // if this process is a server, starts to listen
  ~JobMember() override { stop(0); }

  void set_events(Events events) { events_ = std::move(events); }
  Registered join();
  bool servers_keep_snapshots();

 private:
  struct Server {
    ConnectionId connection = 0;
    bool ready = false;
    uint32_t incarnation = 0;
    Clock::time_point next_attempt{};
    bool was_ready = false;
  };

  void opened(ConnectionId id) override;
  void closed(ConnectionId id, const std::string& why, bool is_invalid) override;
  void take_frame(ConnectionId id, Frame frame) override;
  void changed() override;
  void has_failed(const std::string& why) override { events_.failed(why); }
  void tick() override;
  ConnectionId connection_to(int peer) override;
  std::string peer_name(int peer) const override;
  bool is_ready() override { return !is_worker_ || ready_; }

  void take_welcome(int server, const Welcome& welcome);
  void connect_servers();
  int server_of(ConnectionId id) const;

  const bool is_worker_;
  Events events_;
  std::vector<Server> servers_;  // used only on the reactor thread
  bool ready_ = false;           // whether all servers are connected; guarded by mutex_
  bool snapshots_ = false;       // guarded by mutex_
};

}  // namespace mxlite::server
