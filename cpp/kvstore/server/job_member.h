// Common part of servers and workers: their rank in the job, the connection to the scheduler, and
// requests that are repeated until they are answered.
#pragma once
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/server/reactor.h"

namespace mxlite::server {

inline constexpr int kScheduler = -1;

struct MemberRequest {
  int peer = kScheduler;  // rank of a server, or kScheduler
  Frame frame;
  std::string what;                 // "push of 'fc1_weight', step 12"
  std::function<void(Reply)> done;  // called once, on the reactor thread
};

struct MemberStats {
  uint64_t requests = 0, resends = 0, reconnects = 0;
};

class JobMember {
 public:
  // Called on the reactor thread.
  struct Events {
    std::function<void(const JobState& before, const JobState& now)> changed =
        [](const JobState&, const JobState&) {};
    std::function<void(const std::string& why)> failed = [](const std::string&) {};
    std::function<void(ConnectionId, Frame)> frame = [](ConnectionId, Frame) {};  // frame from a
                                                                                  // worker
    std::function<void(ConnectionId)> closed = [](ConnectionId) {};
    // Called when a server has come back: what it may have lost can be sent again.
    std::function<void(int server)> restored = [](int) {};
    std::function<void()> tick = [] {};
  };

  explicit JobMember(const Options& options);
  ~JobMember();
  JobMember(const JobMember&) = delete;
  JobMember& operator=(const JobMember&) = delete;

  void set_events(Events events) { events_ = std::move(events); }
  // Blocks until the scheduler has assigned a rank. Throws if it cannot be reached in time.
  Registered join();
  // Blocks until all have registered and a worker has a connection to every server.
  void wait_until_running();
  void stop(double flush_seconds) noexcept;

  // Any thread may call these.
  void request(MemberRequest request);
  Reply call(MemberRequest request);  // blocks; throws the reply's error
  void set_progress(std::string text);
  void fail(const std::string& why);  // this process cannot continue, so the job ends
  bool failed();
  std::string failure();
  JobState state();
  MemberStats stats();
  Reactor& reactor() { return reactor_; }
  int rank() const { return registered_.rank; }
  bool servers_keep_snapshots();
  std::string self() const;  // "worker 1"

 private:
  struct Pending {
    MemberRequest request;
    Clock::time_point begun, sent;
    double interval = 0;
    bool was_sent = false;
  };
  struct Server {
    ConnectionId connection = 0;
    bool ready = false;
    uint32_t incarnation = 0;
    Clock::time_point next_attempt{};
    std::string last_error;
    bool was_ready = false;
  };

  void opened(ConnectionId id);
  void take_frame(ConnectionId id, Frame frame);
  void take_state(JobState state);
  void take_reply(Frame frame);
  void closed(ConnectionId id, const std::string& why);
  void tick();
  void connect_servers();
  bool send_now(Pending& pending);
  void fail_here(const std::string& why);
  int server_of(ConnectionId id) const;
  std::string peer_name(int peer) const;
  bool all_ready() const;

  const Options options_;
  Events events_;
  Registered registered_;
  std::string address_;  // address on which a server listens

  // Used only on the reactor thread.
  ConnectionId scheduler_ = 0;
  bool scheduler_ready_ = false;
  std::vector<Server> servers_;
  std::map<uint64_t, Pending> pending_;
  Clock::time_point heartbeat_sent_{}, membership_changed_ = Clock::now();
  bool failed_told_ = false;

  std::atomic<uint64_t> next_request_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  JobState state_;               // guarded by mutex_
  std::string failure_;          // guarded by mutex_
  std::string progress_;         // guarded by mutex_
  std::string connect_trouble_;  // guarded by mutex_
  bool scheduler_open_ = false;  // guarded by mutex_
  bool ready_ = false;           // guarded by mutex_: connected to all servers
  bool snapshots_ = false;       // guarded by mutex_
  bool stopping_ = false;        // guarded by mutex_
  MemberStats stats_;            // guarded by mutex_
  Reactor reactor_;              // last: its thread ends before what it uses
};

}  // namespace mxlite::server
