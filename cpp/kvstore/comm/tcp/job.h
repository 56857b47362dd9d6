// This process in a job over several hosts: its connection to the rendezvous, on a thread of its
// own, and the connections of groups.
#pragma once
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/failure_text.h"
#include "cpp/kvstore/comm/tcp/link.h"

namespace mxlite::tcp {

// The state of a group that its communicator shares with the job's thread.
class GroupState {
 public:
  GroupState(uint64_t id, std::vector<int> members) : id(id), members(std::move(members)) {}

  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // Keeps the first text only. `announce`: the other members do not know it.
  void fail(const char* text, bool announce) noexcept;
  std::string failure();
  // Returns whether there is a text of this process that has not been announced, once.
  bool take_announcement() noexcept;

  const uint64_t id;
  const std::vector<int> members;  // ranks of the job

 private:
  std::mutex mutex_;
  FailureText text_;                 // guarded by mutex_
  std::atomic<bool> failed_{false};  // the text is complete
  std::atomic<bool> announce_{false};
};

struct JobPlace {
  TcpAddress rendezvous;
  std::string token;
  int rank = 0, size = 1;
  std::string listen_host;  // empty: the address from which the rendezvous is reached
  std::string host;         // name of this host, for the text of errors
};

enum class Presence : uint8_t { kPresent, kLeft, kLost };

class Job {
 public:
  // Registers, and waits until all processes have. Throws a communicator error after
  // MXLITE_COMM_TIMEOUT that names the missing ranks.
  explicit Job(const JobPlace& place);
  ~Job() { leave(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Leaves in good order: the process ends. Does nothing in a fork of the process, or twice.
  void leave() noexcept;

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  const std::string& host_of(int rank) const { return table_.hosts[static_cast<size_t>(rank)]; }
  Presence presence(int rank) const { return presence_[static_cast<size_t>(rank)].load(); }

  // Collective over the members. Returns one socket for each; none for this process itself.
  std::vector<Socket> connect(GroupState& group);
  // From here on, lost members and failures of other members fail the group.
  void watch(const std::shared_ptr<GroupState>& group);
  // Announces failures of watched groups soon.
  void wake() noexcept;

 private:
  Body register_here();
  void wait_for_table();
  void send_heartbeat();  // if it is time for one
  void loop() noexcept;
  bool step();  // returns false once the connection has ended
  void take_frame(const WireFrame& frame);
  void announce_failures();
  void fail_groups_of(int rank, const std::string& why);  // rank -1: all groups
  int accept_members();  // returns the error if no descriptor is left for a connection, else 0
  // A connection that this process opens to a member before it.
  struct Calling {
    TcpAddress address;
    std::unique_ptr<Link> link;
    Clock::time_point again{};  // no attempt before
    std::string trouble;        // why the last attempt failed
  };
  void call(Calling& calling, uint64_t group);
  Socket take_answer(Calling& calling);
  [[noreturn]] void fail_group(GroupState& group, const std::string& text);

  const JobPlace place_;
  const SealKey key_;
  const int owner_;  // process that has joined
  Socket listener_;
  std::unique_ptr<Link> link_;  // used by the thread once it runs
  Table table_;
  std::vector<std::atomic<Presence>> presence_;
  Socket wake_reader_, wake_writer_;
  std::atomic<bool> leaving_{false};
  Clock::time_point beat_{};  // last heartbeat

  std::mutex mutex_;
  // Groups whose failure is announced, also after their communicators have gone.
  std::vector<std::shared_ptr<GroupState>> groups_;  // guarded by mutex_, as all below
  std::map<uint64_t, std::string> failed_groups_;    // why, by id
  std::map<int, std::string> lost_;                  // why, by rank
  std::string broken_;                               // reason why the rendezvous has ended

  std::mutex accept_mutex_;
  struct Arriving {
    Link link;
    Clock::time_point since;
  };
  std::list<Arriving> arriving_;                         // guarded by accept_mutex_
  std::map<std::pair<uint64_t, int>, Socket> accepted_;  // guarded by accept_mutex_; by group, rank

  std::thread thread_;
};

}  // namespace mxlite::tcp
