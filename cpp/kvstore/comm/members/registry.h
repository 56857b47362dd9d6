// The process at which all processes of a job register. It assigns ranks, checks heartbeats, and
// sends the state of the job to all processes when a process is lost or has left.
#pragma once
#include <string>
#include <vector>

#include "cpp/kvstore/comm/link/reactor.h"
#include "cpp/kvstore/comm/members/messages.h"

namespace mxlite::members {

class Registry {
 public:
  Registry(const JobKind& kind, const SealKey& key, std::string version, int num_workers,
           int num_servers);
  virtual ~Registry() = default;             // derived classes must stop the reactor first
  Registry& operator=(Registry&&) = delete;  // neither copied nor moved

 protected:
  struct Entry {
    MemberState state;
    Role role = Role::kWorker;
    int rank = 0;
    ConnectionId connection = 0;
    Registration registration;
    std::string progress;   // progress text of the last heartbeat
    bool rejoined = false;  // whether the process replaces a lost process
    uint64_t barriers = 0;  // number of barriers that a worker has entered
    Clock::time_point since{}, seen{}, lost{};
  };

  // Handlers that run on the reactor thread. place_for returns a free entry or null. For null,
  // `why` is the reason of the refusal, or empty if the process should retry.
  virtual Entry* place_for(const Registration& r, std::string& why) = 0;
  virtual void take_frame(Entry& entry, const Frame& frame) = 0;  // called for frame types that
                                                                  // Registry does not handle.
  virtual void lose(Entry& entry, const std::string& why) = 0;
  virtual void left(Entry& entry) = 0;
  virtual void tick() = 0;

  void answer(ConnectionId id, uint64_t request, Reply reply);
  // Marks an entry as lost and returns the message about the loss.
  std::string lost_text(Entry& entry, const std::string& why);
  void fail_job(const std::string& why);
  void publish();               // sends the whole state to all processes
  void publish(Entry& change);  // sends the change of one entry to all processes
  void send_all(FrameType type, const Body& body);
  void check_silence();
  std::vector<Entry*> all();

  const JobKind& kind_;
  // Used only on the reactor thread.
  JobState state_;
  std::vector<Entry> workers_, servers_;
  Clock::time_point changed_ = Clock::now();
  Reactor reactor_;

 private:
  void take(ConnectionId id, Frame frame);
  void take_registration(ConnectionId id, const Frame& frame);
  Entry* entry_of(ConnectionId id);

  const std::string version_;
  uint32_t epoch_ = 0, incarnations_ = 0;
};

}  // namespace mxlite::members
