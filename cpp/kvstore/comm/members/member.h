// This process as a member of a job. The object has the rank of the process, its connection to the
// scheduler, and its requests, which it repeats until they are answered.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "cpp/kvstore/comm/link/reactor.h"
#include "cpp/kvstore/comm/members/messages.h"

namespace mxlite::members {

inline constexpr int kScheduler = -1;

struct MemberOptions {
  Address scheduler;
  SealKey key;           // key of the job; frames with another key are rejected
  std::string version;   // version of mxlite
  double timeout = 60;   // limit in seconds for any wait for another process
  double heartbeat = 1;  // seconds between heartbeats
  double resend = 1;     // seconds after which a request without an answer is sent again
  Registration registration;
};

struct MemberRequest {
  int peer = kScheduler;  // rank of a server, or kScheduler
  Frame frame;
  std::string what;                 // description for errors: "push of 'fc1_weight', step 12"
  std::function<void(Reply)> done;  // called once on the reactor thread
};

struct MemberStats {
  uint64_t requests = 0, resends = 0, reconnects = 0;
};

class Member {
 public:
  Member(const JobKind& kind, MemberOptions options);
  virtual ~Member() = default;           // derived classes must call stop first
  Member& operator=(Member&&) = delete;  // neither copied nor moved

  // Blocks until the scheduler has assigned a rank. Throws if the scheduler cannot be reached in
  // time.
  Registered join(const char* thread_name);
  // Blocks until all processes have registered and is_ready returns true.
  void wait_until_running();
  // Sends pending frames for at most `flush_seconds`.
  void stop(double flush_seconds) noexcept;

  // Any thread may call the functions below.
  void request(MemberRequest request);
  Reply call(MemberRequest request);  // blocks until the reply and throws its error
  void set_progress(std::string text);
  void fail(const std::string& why);  // ends the job because this process cannot continue
  bool failed() { return !failure().empty(); }
  std::string failure();
  JobState state();
  MemberStats stats();
  Reactor& reactor() { return reactor_; }
  int rank() const { return registered_.rank; }
  std::string self() const;  // name of this process: "worker 1"

 protected:
  // Handlers that run on the reactor thread. `opened` and `closed` are not called for the
  // connection to the scheduler.
  virtual void opened(ConnectionId) {}
  virtual void closed(ConnectionId, const std::string& /*why*/, bool /*is_invalid*/) {}
  virtual void take_frame(ConnectionId, Frame frame) = 0;  // also called for frames of the
                                                           // scheduler
  virtual void member_changed(Role, int /*rank*/, const MemberState& /*now*/) {}
  virtual void changed() {}  // called when the state of the job has changed
  virtual void has_failed(const std::string& /*why*/) {}
  virtual void tick() {}
  // Returns the connection for requests to `peer`, or 0 if none is open.
  virtual ConnectionId connection_to(int peer) { return peer == kScheduler ? ready_scheduler_ : 0; }
  virtual std::string peer_name(int) const { return kind_.scheduler; }
  virtual bool is_ready() { return true; }  // called with the mutex held

  void send_hello(ConnectionId id, uint64_t group = 0);
  void take_reply(Frame frame);
  // Call after a reconnect. Sends all requests to `peer` that were not sent since `before`.
  void resend_to(int peer, Clock::time_point before);
  void fail_here(const std::string& why);
  // Returns whether this process is leaving or the job has ended or failed.
  bool is_over();

  const JobKind& kind_;
  MemberOptions options_;  // not changed after join
  Registered registered_;
  std::mutex mutex_;
  std::condition_variable changed_;
  JobState state_;                                       // guarded by mutex_
  std::string connect_trouble_;                          // guarded by mutex_
  MemberStats stats_;                                    // guarded by mutex_
  Clock::time_point membership_changed_ = Clock::now();  // used only on the reactor thread

 private:
  struct PendingRequest {
    MemberRequest request;
    Clock::time_point begun, sent;
    double interval = 0;
    bool was_sent = false;
  };
  void connect();
  void take(ConnectionId id, Frame frame);
  void take_welcome(const Welcome& welcome);
  void take_state(JobState state);
  void take_change(MemberChange change);
  void lose(ConnectionId id, const std::string& why, bool is_invalid);
  void on_tick();
  bool send_now(PendingRequest& pending);

  // Used only on the reactor thread.
  ConnectionId scheduler_ = 0, ready_scheduler_ = 0;  // the second is set after the scheduler's
                                                      // welcome
  std::map<uint64_t, PendingRequest> pending_;
  bool scheduler_connected_ = false;
  Clock::time_point heartbeat_sent_{};

  std::atomic<uint64_t> next_request_{1};
  std::string failure_;             // guarded by mutex_
  std::string progress_;            // guarded by mutex_
  bool scheduler_open_ = false;     // guarded by mutex_
  bool closed_unanswered_ = false;  // guarded by mutex_
  bool stopping_ = false;           // guarded by mutex_

 protected:
  Reactor reactor_;  // last member, so that its thread ends before the objects that it uses
};

}  // namespace mxlite::members
