#include "cpp/kvstore/comm/tcp/job.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <new>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/descriptors.h"
#include "cpp/kvstore/comm/tcp/rendezvous.h"

namespace mxlite::tcp {
namespace {

using members::MemberStatus;

constexpr double kStepSeconds = 0.1;
// Share of silence_limit() after which a silent rank counts as lost. The loss is thus reported
// before other ranks' waits time out.
constexpr double kSilenceShare = 0.8;
constexpr double kHeartbeat = 1;     // seconds
constexpr double kLeaveSeconds = 2;  // limit of the wait for the rendezvous when this process
                                     // leaves
constexpr size_t kMostFailedGroups = 1024;
constexpr size_t kMostTextBytes = 4096;

members::MemberOptions member_options(const JobPlace& place) {
  members::Registration r;
  r.rank = place.rank;
  r.host = place.host;
  r.process = getpid();
  r.num_workers = place.size;
  r.timeout = comm_timeout();
  r.silence = kSilenceShare * silence_limit();
  return {place.rendezvous,
          key_of_secret(place.token),
          "",
          comm_timeout(),
          std::min(kHeartbeat, silence_limit() / 4),
          /*resend=*/1,
          r};
}

}  // namespace

void GroupState::fail(const char* text, bool announce) noexcept {
  std::lock_guard lock(mutex_);
  if (text_.is_set()) return;
  text_.set(text);
  if (announce) announce_ = true;
  failed_.store(true, std::memory_order_release);
}

std::string GroupState::failure() {
  std::lock_guard lock(mutex_);
  return text_.get();
}

Job::Job(const JobPlace& place)
    : Member(kHostsJob, member_options(place)), left_(static_cast<size_t>(place.size)) {
  const std::string host =
      place.listen_host.empty() ? route_address(place.rendezvous) : place.listen_host;
  options_.registration.address = address_text(reactor_.listen({host, 0}));
  try {
    join("mxlite-job");
    wait_until_running();
  } catch (...) {
    stop(0);
    throw;
  }
}

void Job::leave() noexcept {
  if (reactor_.is_in_fork()) return stop(0);
  if (is_over()) return stop(0);
  auto gone = std::make_shared<std::promise<void>>();
  try {
    request({members::kScheduler,
             {FrameType::kLeave, 0, {}, {}},
             "leaving",
             [gone](const members::Reply&) { gone->set_value(); }});
    gone->get_future().wait_for(std::chrono::duration<double>(kLeaveSeconds));
  } catch (const std::exception&) {  // if no memory for the message is left, only ends the
                                     // connection
  }
  stop(0);
}

void Job::take_frame(ConnectionId id, Frame frame) {
  switch (frame.type) {
    case FrameType::kGroupFailure: {
      const auto m = decode<members::GroupFailure>(frame.body);
      std::lock_guard lock(groups_mutex_);
      // A failed group may not exist in this process yet. In this case it fails when the process
      // forms it.
      if (failed_groups_.size() < kMostFailedGroups) failed_groups_.emplace(m.group, m.why);
      for (const auto& group : groups_)
        if (group->id == m.group) group->fail(m.why.c_str(), /*announce=*/false);
      return connected_.notify_all();
    }
    case FrameType::kHello: {
      const auto hello = decode<members::Hello>(frame.body);
      if (hello.group == 0 || hello.rank < 0 || hello.rank >= size()) break;
      reactor_.accept_hello(id);
      {
        std::lock_guard lock(groups_mutex_);
        callers_[{hello.group, hello.rank}] = id;
      }
      return welcome(hello.group, hello.rank);
    }
    case FrameType::kWelcome: {
      std::lock_guard lock(groups_mutex_);
      Peer* const peer = find_calling(id).second;
      if (!peer) break;
      peer->calling = 0;
      peer->socket = reactor_.release(id);
      return connected_.notify_all();
    }
    default:
      break;
  }
  throw FrameError(BadFrame::kOrder,
                   "job rendezvous: a process must get frames of the rendezvous or of its groups, "
                   "got another frame");
}

void Job::member_changed(members::Role, int rank, const members::MemberState& now) {
  if (now.status == MemberStatus::kLeft) left_[static_cast<size_t>(rank)] = true;
  if (now.status == MemberStatus::kLost) fail_groups_of(rank, now.why);
}

void Job::announce_failures() {
  std::vector<members::GroupFailure> failures;
  {
    std::lock_guard lock(groups_mutex_);
    std::erase_if(groups_, [&](const auto& group) {
      const bool is_gone = group.use_count() == 1;  // no other thread can use the group any more
      if (group->take_announcement())
        failures.push_back({group->id, group->failure().substr(0, kMostTextBytes)});
      return is_gone;
    });
  }
  for (const members::GroupFailure& m : failures)
    reactor_.send(connection_to(members::kScheduler), {FrameType::kGroupFailure, 0, encode(m), {}});
}

void Job::tick() {
  shortage_ = reactor_.shortage();
  announce_failures();
}

void Job::fail_groups_of(int rank, const std::string& why) {
  std::lock_guard lock(groups_mutex_);
  if (rank < 0)
    broken_ = why;
  else
    lost_.emplace(rank, why);
  for (const auto& group : groups_)
    if (rank < 0 || std::count(group->members.begin(), group->members.end(), rank) > 0)
      group->fail(why.c_str(), /*announce=*/false);
  connected_.notify_all();
}

void Job::watch(const std::shared_ptr<GroupState>& group) {
  std::lock_guard lock(groups_mutex_);
  groups_.push_back(group);
  if (!broken_.empty()) group->fail(broken_.c_str(), false);
  for (const int member : group->members)
    if (const auto found = lost_.find(member); found != lost_.end())
      group->fail(found->second.c_str(), false);
  if (const auto found = failed_groups_.find(group->id); found != failed_groups_.end())
    group->fail(found->second.c_str(), false);
}

void Job::wake() noexcept {
  try {
    reactor_.post([this] { announce_failures(); });
  } catch (const std::bad_alloc&) {  // the next tick announces them
  }
}

// Throws the group's failure. This is `text` unless the group has failed before.
void Job::fail_group(GroupState& group, const std::string& text) {
  group.fail(text.c_str(), /*announce=*/true);
  wake();
  mxlite::fail(ErrorKind::kCommunicator, group.failure());
}

std::pair<uint64_t, Job::Peer*> Job::find_calling(ConnectionId id) {
  for (auto& [group, peers] : forming_)
    for (auto& [rank, peer] : *peers)
      if (peer.calling == id) return {group, &peer};
  return {0, nullptr};
}

void Job::opened(ConnectionId id) {
  std::unique_lock lock(groups_mutex_);
  const uint64_t group = find_calling(id).first;
  lock.unlock();
  if (group != 0) send_hello(id, group);
}

// Connects again later, because a peer drops connections without hello when it reaches its limit.
void Job::closed(ConnectionId id, const std::string& why, bool is_invalid) {
  std::lock_guard lock(groups_mutex_);
  std::erase_if(callers_, [id](const auto& caller) { return caller.second == id; });
  Peer* const peer = find_calling(id).second;
  if (!peer) return;
  peer->calling = 0;
  peer->again = Clock::now() + duration_of(kStepSeconds);
  peer->trouble = why;
  peer->is_refused = is_invalid;
  connected_.notify_all();
}

void Job::call(Peer& peer) {
  if (peer.calling != 0 || Clock::now() < peer.again) return;
  peer.calling = reactor_.new_id();
  reactor_.connect(peer.calling, peer.address);
}

// Call on the reactor thread without holding the mutex, because sending may call `closed`.
void Job::welcome(uint64_t group, int rank) {
  std::unique_lock lock(groups_mutex_);
  const auto caller = callers_.find({group, rank});
  if (!forming_.count(group) || caller == callers_.end()) return;
  const ConnectionId id = caller->second;
  callers_.erase(caller);
  lock.unlock();
  // The answer is short and fits into the send buffer of a new connection, so the socket can be
  // released immediately. All later messages are sent and received by the group.
  reactor_.send(id, {FrameType::kWelcome, 0, encode(members::Welcome{}), {}});
  Socket socket = reactor_.release(id);
  if (!socket) return reactor_.close(id, "it takes no bytes");
  lock.lock();
  const auto forming = forming_.find(group);
  if (forming == forming_.end() || !forming->second->count(rank)) return;
  (*forming->second)[rank].socket = std::move(socket);
  connected_.notify_all();
}

std::vector<Socket> Job::connect(GroupState& group) {
  const size_t n = group.members.size();
  const std::string what = str("rank ", rank(), ": connections of a group of ", n, " ranks");
  reserve_descriptors(what, static_cast<int64_t>(n) + kOwnDescriptors, kMostStrangers);
  const std::vector<members::MemberState> all = state().workers;
  Peers peers;
  bool is_before = true;  // each member connects to the members before it
  for (const int r : group.members) {
    is_before = is_before && r != rank();
    if (r == rank()) continue;
    Peer& peer = peers[r];
    if (is_before)
      peer.address = address_from_text(kHostsJob.source, all[static_cast<size_t>(r)].address);
  }
  const Deadline deadline(comm_timeout());
  std::unique_lock lock(groups_mutex_);
  forming_[group.id] = &peers;
  struct End {
    Job& job;
    GroupState& group;
    ~End() {
      for (auto& [r, peer] : *job.forming_[group.id])
        if (peer.calling != 0) job.reactor_.close(peer.calling, "the group is not formed");
      job.forming_.erase(group.id);
    }
  } end{*this, group};
  reactor_.post([this, id = group.id, members = group.members] {
    for (const int r : members) welcome(id, r);
  });
  for (;;) {
    std::string missing;
    int gone = -1;  // a member that has left
    for (auto& [r, peer] : peers) {
      if (peer.socket) continue;
      if (!has_left(r))
        peer.present = Clock::now();
      else if (seconds_since(peer.present) > kStepSeconds)  // its last messages have been read
        gone = r;
      if (peer.is_refused) fail_group(group, str("rank ", r, ": ", peer.trouble));
      missing += str(missing.empty() ? "rank " : ", rank ", r);
      if (peer.address.port == 0) continue;
      call(peer);
      missing += str(", at ", address_text(peer.address));
      if (!peer.trouble.empty()) missing += str(": ", peer.trouble);
    }
    if (missing.empty()) break;
    if (group.failed()) mxlite::fail(ErrorKind::kCommunicator, group.failure());
    if (gone >= 0) fail_group(group, str("rank ", gone, " has left the job"));
    const int shortage = shortage_;
    // Fails immediately if this process has no descriptor left, because no code here frees a
    // descriptor. If the host has no descriptor left, other processes may free descriptors.
    if (shortage == EMFILE)
      fail_group(group, str("rank ", rank(), ": no descriptor is left for a connection of ",
                            "another rank: ", descriptor_shortage_text(shortage)));
    if (deadline.over())
      fail_group(group, str("rank ", rank(), ": waited ", comm_timeout(),
                            " s (MXLITE_COMM_TIMEOUT) for a connection with ", missing,
                            shortage ? "; " + descriptor_shortage_text(shortage) : ""));
    connected_.wait_for(lock, std::chrono::duration<double>(kStepSeconds));
  }
  std::vector<Socket> sockets;
  for (const int r : group.members)
    sockets.push_back(r == rank() ? Socket() : std::move(peers[r].socket));
  return sockets;
}

}  // namespace mxlite::tcp
