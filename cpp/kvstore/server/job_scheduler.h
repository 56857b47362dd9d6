// The process with which all others register: assigns ranks, checks heartbeats, counts barriers,
// and notifies all processes when one is lost and when the job has ended.
#pragma once
#include <condition_variable>
#include <string>
#include <vector>

#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/server/reactor.h"
#include "cpp/kvstore/store/placement.h"

namespace mxlite::server {

using store::Placement;

class JobScheduler {
 public:
  // Listens from here on; throws if the port is in use.
  explicit JobScheduler(const Options& options);
  ~JobScheduler();

  // Runs until the job has ended; throws why it failed. Calls `interrupted` ten times a second.
  void run(const std::function<void()>& interrupted);
  int port() const { return port_; }

 private:
  struct Member {
    MemberState state;
    Role role = Role::kWorker;
    int rank = 0;
    ConnectionId connection = 0;
    std::string where;     // "host node7, process 123"
    std::string progress;  // from the last heartbeat
    bool snapshots = false;
    bool rejoined = false;  // replaces a lost process
    uint64_t barriers = 0;
    Clock::time_point seen{}, lost{};
  };
  struct Waiting {
    ConnectionId connection;
    uint64_t request, count;
    int rank;
    Clock::time_point since;
  };

  void take_frame(ConnectionId id, Frame frame);
  void register_member(ConnectionId id, const Frame& frame);
  Member* free_place(const Registration& r);
  void barrier(ConnectionId id, const Frame& frame);
  void check_barriers();
  void place(const Member& worker, const Frame& frame);
  void lose(Member& member, const std::string& why);
  void fail_job(const std::string& why);
  void tick();
  void publish();
  void send_state(ConnectionId id);
  void answer(ConnectionId id, uint64_t request, Reply reply);
  void change_ended();
  Member* member_of(ConnectionId id);
  std::vector<Member*> all();
  std::string missing() const;

  const Options options_;
  int port_ = 0;
  uint32_t epoch_ = 0;

  // Used only on the reactor thread.
  JobState state_;
  std::vector<Member> workers_, servers_;
  std::vector<Waiting> barrier_waits_;
  Placement placement_;
  uint32_t incarnations_ = 0;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point over_since_{}, changed_ = Clock::now();

  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;    // guarded by mutex_
  std::string failure_;  // guarded by mutex_
  Reactor reactor_;
};

}  // namespace mxlite::server
