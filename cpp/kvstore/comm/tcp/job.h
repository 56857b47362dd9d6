// This process in a job over several hosts. It has connections to the rendezvous and to the members
// of groups.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cpp/kvstore/comm/failure_text.h"
#include "cpp/kvstore/comm/members/member.h"

namespace mxlite::tcp {

// State of a group. The group's communicator and the job's thread share this object.
class GroupState {
 public:
  GroupState(uint64_t id, std::vector<int> members) : id(id), members(std::move(members)) {}

  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // Only the first call stores its text. `announce` says whether the other members must be
  // notified.
  void fail(const char* text, bool announce) noexcept;
  std::string failure();
  // Returns whether a failure of this process must be announced. Later calls return false.
  bool take_announcement() noexcept { return announce_.exchange(false); }

  const uint64_t id;
  const std::vector<int> members;  // ranks of the job

 private:
  std::mutex mutex_;
  FailureText text_;                 // guarded by mutex_
  std::atomic<bool> failed_{false};  // true once the text is complete
  std::atomic<bool> announce_{false};
};

struct JobPlace {
  Address rendezvous;
  std::string token;
  int rank = 0, size = 1;
  std::string listen_host;  // if empty, the address from which the rendezvous is reached
  std::string host;         // name of this host, for the text of errors
};

class Job final : public members::Member {
 public:
  // Registers this process and waits until all processes have registered. After
  // MXLITE_COMM_TIMEOUT, throws a communicator error that names the missing ranks.
  explicit Job(const JobPlace& place);
  ~Job() override { leave(); }

  // Leaves normally at the end of the process. Idempotent. Does nothing in a fork of the process.
  void leave() noexcept;

  int size() const { return options_.registration.num_workers; }
  bool has_left(int rank) const { return left_[static_cast<size_t>(rank)]; }

  // Collective over the members. Returns a socket for each member. The socket of this process
  // itself is empty.
  std::vector<Socket> connect(GroupState& group);
  // Makes the group fail if a member is lost or another member announces a failure.
  void watch(const std::shared_ptr<GroupState>& group);
  // Makes the job's thread announce failures of watched groups soon.
  void wake() noexcept;

 private:
  // A member of a group that is being formed.
  struct Peer {
    Address address;            // address to connect to; unset for later members, which connect
                                // this process
    ConnectionId calling = 0;   // pending connection attempt, or 0
    Clock::time_point again{};  // earliest time of the next attempt
    std::string trouble;        // why the last attempt failed
    bool is_refused = false;    // whether the peer has sent invalid data
    Clock::time_point present = Clock::now();  // last check that found the peer still in the job
    Socket socket;
  };
  using Peers = std::map<int, Peer>;  // the key is the rank

  void opened(ConnectionId id) override;
  void closed(ConnectionId id, const std::string& why, bool is_invalid) override;
  void take_frame(ConnectionId id, Frame frame) override;
  void member_changed(members::Role, int rank, const members::MemberState& now) override;
  void has_failed(const std::string& why) override { fail_groups_of(-1, why); }
  void tick() override;

  std::pair<uint64_t, Peer*> find_calling(ConnectionId id);
  void call(Peer& peer);
  void welcome(uint64_t group, int rank);  // handles a connection of `rank` for a group that is
                                           // being formed
  void announce_failures();
  void fail_groups_of(int rank, const std::string& why);  // rank -1 means all groups
  [[noreturn]] void fail_group(GroupState& group, const std::string& text);

  std::vector<std::atomic<bool>> left_;  // indexed by rank
  std::atomic<int> shortage_{0};         // errno if no descriptor is left for a connection, else 0

  std::mutex groups_mutex_;
  // Groups to watch. A group stays in this list until its failure is announced, even if its
  // communicator is destroyed.
  std::vector<std::shared_ptr<GroupState>> groups_;  // guarded by groups_mutex_, like all members
                                                     // below
  std::map<uint64_t, std::string> failed_groups_;    // reasons of failures; keys: group ids
  std::map<int, std::string> lost_;                  // reasons of losses; keys: ranks
  std::string broken_;                               // reason why the rendezvous is lost
  std::map<uint64_t, Peers*> forming_;               // groups that are being formed; keys: ids
  std::map<std::pair<uint64_t, int>, ConnectionId> callers_;  // connections without an answer;
                                                              // keys: group and rank
  std::condition_variable connected_;
};

}  // namespace mxlite::tcp
