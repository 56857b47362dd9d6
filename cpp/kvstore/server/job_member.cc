#include "cpp/kvstore/server/job_member.h"

#include <unistd.h>

#include <algorithm>

#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::server {
namespace {

constexpr double kRetrySeconds = 0.1;

members::MemberOptions member_options(const Options& options) {
  members::Registration r;
  r.role = options.role;
  r.rank = options.rank;
  r.host = host_name();
  r.process = getpid();
  r.snapshots = !options.snapshot_dir.empty();
  r.num_workers = options.num_workers;
  r.num_servers = options.num_servers;
  r.timeout = options.timeout;
  r.silence = options.silence;
  return {{options.root_host, options.root_port},
          options.key,
          options.version,
          options.timeout,
          options.heartbeat,
          options.resend,
          r};
}

}  // namespace

JobMember::JobMember(const Options& options)
    : Member(kServerJob, member_options(options)), is_worker_(options.role == Role::kWorker) {
  servers_.resize(static_cast<size_t>(options.num_servers));
  const int peers = 1 + (is_worker_ ? options.num_servers : options.num_workers);
  reserve_descriptors(
      str("parameter server: a ", role_name(options.role), " with ", peers, " connections"),
      peers + kOwnDescriptors, is_worker_ ? 0 : int64_t{kMostStrangers});
  if (is_worker_) return;
  // The server listens only on the interface with the route to the scheduler.
  std::string host = options.local() ? "127.0.0.1" : options.node_host;
  if (host.empty()) host = route_address(options_.scheduler);
  options_.registration.address = address_text(reactor_.listen({host, options.port}));
}

Registered JobMember::join() { return Member::join(is_worker_ ? "mxlite-ps" : "mxlite-ps-server"); }

std::string JobMember::peer_name(int peer) const {
  return peer == kScheduler ? "the scheduler" : str("server ", peer);
}

ConnectionId JobMember::connection_to(int peer) {
  if (peer == kScheduler) return Member::connection_to(peer);
  const Server& s = servers_[static_cast<size_t>(peer)];
  return s.ready ? s.connection : 0;
}

bool JobMember::servers_keep_snapshots() {
  std::lock_guard lock(mutex_);
  return snapshots_;
}

void JobMember::opened(ConnectionId id) {
  if (server_of(id) >= 0) send_hello(id);  // this process is a worker, and the peer is a server
}

int JobMember::server_of(ConnectionId id) const {
  for (size_t i = 0; i < servers_.size(); ++i)
    if (servers_[i].connection == id && id != 0) return static_cast<int>(i);
  return -1;
}

void JobMember::take_frame(ConnectionId id, Frame frame) {
  const int server = server_of(id);
  if (server < 0) return events_.frame(id, std::move(frame));
  switch (frame.type) {
    case FrameType::kWelcome:
      reactor_.trust(id);
      return take_welcome(server, decode<Welcome>(frame.body));
    case FrameType::kRefused:
      return fail_here(decode<std::string>(frame.body));
    case FrameType::kReply:
      return take_reply(std::move(frame));
    default:
      throw FrameError(BadFrame::kOrder,
                       "parameter server: a server must send a welcome, a refusal or a reply, got "
                       "another frame");
  }
}

void JobMember::take_welcome(int server, const Welcome& welcome) {
  Server& s = servers_[static_cast<size_t>(server)];
  s.ready = true;
  const bool is_back = std::exchange(s.was_ready, true);
  {
    std::lock_guard lock(mutex_);
    snapshots_ = snapshots_ || welcome.snapshots;
    ready_ = std::all_of(servers_.begin(), servers_.end(), [](const Server& o) { return o.ready; });
    stats_.reconnects += is_back;
    changed_.notify_all();
  }
  const auto now = Clock::now();
  if (is_back) events_.restored(server);
  resend_to(server, now);
}

void JobMember::changed() {
  const JobState now = state();
  events_.changed(now);
  if (is_worker_ && now.running) connect_servers();
}

void JobMember::connect_servers() {
  if (registered_.epoch == 0 || is_over()) return;
  const std::vector<MemberState> now = state().servers;
  if (now.size() != servers_.size()) return;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const MemberState& member = now[i];
    Server& s = servers_[i];
    if (member.status != MemberStatus::kAlive || Clock::now() < s.next_attempt) continue;
    if (s.connection != 0 && s.incarnation == member.incarnation) continue;
    if (s.connection != 0) reactor_.close(std::exchange(s.connection, 0), "a newer server");
    s.ready = false;
    s.incarnation = member.incarnation;
    s.next_attempt = Clock::now() + duration_of(kRetrySeconds);
    try {
      const Address address = address_from_text("parameter server", member.address);
      s.connection = reactor_.new_id();
      reactor_.connect(s.connection, address);
    } catch (const Error& e) {
      s.connection = 0;
      std::lock_guard lock(mutex_);
      connect_trouble_ = str("server ", i, ": ", e.what());
    }
  }
}

void JobMember::closed(ConnectionId id, const std::string& why, bool /*is_invalid*/) {
  const int server = server_of(id);
  if (server < 0) return events_.closed(id);
  Server& s = servers_[static_cast<size_t>(server)];
  s.connection = 0;
  s.ready = false;
  s.next_attempt = Clock::now() + duration_of(kRetrySeconds);
  std::lock_guard lock(mutex_);
  ready_ = false;
  connect_trouble_ = str("server ", server, ": ", why);
}

void JobMember::tick() {
  if (is_worker_) connect_servers();
  events_.tick();
}

}  // namespace mxlite::server
