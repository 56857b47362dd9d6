#include "cpp/kvstore/server/job_member.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cpp/engine/blocking.h"
#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::server {
namespace {

constexpr double kRetrySeconds = 0.1;
constexpr double kMargin = 3;  // extra seconds, so that the scheduler and the servers report first:
                               // they know more
constexpr double kLongestInterval = 8;  // in units of the first one

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

JobMember::JobMember(const Options& options) : options_(options), reactor_(options.key) {
  servers_.resize(static_cast<size_t>(options.num_servers));
}

JobMember::~JobMember() { stop(0); }

Registered JobMember::join() {
  reactor_.set_handlers({[this](ConnectionId id) { opened(id); },
                         [this](ConnectionId id, Frame f) { take_frame(id, std::move(f)); },
                         [this](ConnectionId id, const std::string& why) { closed(id, why); },
                         [this] { tick(); }});
  int port = 0;
  std::string host = options_.node_host;
  const bool is_server = options_.role == Role::kServer;
  const int peers = 1 + (is_server ? options_.num_workers : options_.num_servers);
  reserve_descriptors(
      str("parameter server: a ", role_name(options_.role), " with ", peers, " connections"),
      peers + kOwnDescriptors, is_server ? int64_t{kMostStrangers} : 0);
  if (is_server) {
    // The server listens on one interface only: the one that reaches the scheduler.
    if (options_.local()) host = "127.0.0.1";
    if (host.empty()) host = route_address({options_.root_host, options_.root_port});
    port = reactor_.listen({host, options_.port});
  }
  reactor_.start(is_server ? "mxlite-ps-server" : "mxlite-ps");
  const auto start = Clock::now();
  std::string trouble;
  while (true) {  // the scheduler may start later than this process
    {
      std::lock_guard lock(mutex_);
      scheduler_open_ = false;
      connect_trouble_.clear();
    }
    bool begun = true;
    try {
      const ConnectionId id = reactor_.new_id();
      reactor_.post([this, id] { scheduler_ = id; });
      reactor_.connect(id, {options_.root_host, options_.root_port});
    } catch (const Error& e) {
      begun = false;
      trouble = e.what();
    }
    if (begun) {
      std::unique_lock lock(mutex_);
      engine::wait_interruptibly(
          lock, changed_,
          [this] { return scheduler_open_ || !connect_trouble_.empty() || !failure_.empty(); },
          Clock::now() + duration_of(std::max(1.0, options_.timeout - seconds_since(start))));
      if (!failure_.empty()) mxlite::fail(ErrorKind::kCommunicator, failure_);
      if (scheduler_open_) {
        break;
      }
      trouble = connect_trouble_.empty() ? "no answer" : connect_trouble_;
    }
    MX_CHECK_KIND(seconds_since(start) < options_.timeout, ErrorKind::kCommunicator,
                  "parameter server: the scheduler at ", options_.root_host, ":",
                  options_.root_port,
                  " (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT) cannot be reached "
                  "within ",
                  options_.timeout, " s: ", trouble);
    std::unique_lock lock(mutex_);
    engine::wait_interruptibly(
        lock, changed_, [this] { return stopping_; }, Clock::now() + duration_of(kRetrySeconds));
  }
  if (port != 0) address_ = address_text({host, port});
  const Registration registration{options_.role,
                                  options_.rank,
                                  host_name(),
                                  getpid(),
                                  address_,
                                  !options_.snapshot_dir.empty(),
                                  options_.num_workers,
                                  options_.num_servers};
  // Set before the next frame is read, which may be the state that starts the job.
  auto answer = std::make_shared<std::promise<Registered>>();
  request({kScheduler,
           {FrameType::kRegister, 0, encode(registration), {}},
           "registration with the scheduler",
           [this, answer](Reply reply) {
             try {
               if (reply.error) throw *reply.error;
               registered_ = decode<Registered>(reply.body);
               reactor_.set_epoch(registered_.epoch);
               answer->set_value(registered_);
             } catch (...) {
               answer->set_exception(std::current_exception());
             }
           }});
  return engine::get_interruptibly(answer->get_future());
}

void JobMember::wait_until_running() {
  std::unique_lock lock(mutex_);
  const auto come = [this] {
    return !failure_.empty() || (state_.running && (options_.role != Role::kWorker || ready_));
  };
  const bool came = engine::wait_interruptibly(
      lock, changed_, come, Clock::now() + duration_of(options_.timeout + kMargin));
  if (!failure_.empty()) mxlite::fail(ErrorKind::kCommunicator, failure_);
  if (came) return;
  const std::string trouble = connect_trouble_;
  lock.unlock();
  mxlite::fail(ErrorKind::kCommunicator, self(), ": the job did not start within ",
               options_.timeout, " s", trouble.empty() ? "" : ": ", trouble);
}

void JobMember::stop(double flush_seconds) noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  reactor_.post([this] { fail_here("this process has left the job"); });
  reactor_.stop(flush_seconds);
}

std::string JobMember::self() const { return str(role_name(options_.role), " ", registered_.rank); }

std::string JobMember::peer_name(int peer) const {
  return peer == kScheduler ? "the scheduler" : str("server ", peer);
}

void JobMember::request(MemberRequest request) {
  bool stopping = false;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
  }
  if (stopping)
    return request.done(error_reply(ErrorKind::kCommunicator, "this process has left the job"));
  reactor_.run([this, request = std::move(request)]() mutable {
    Pending pending{std::move(request), Clock::now(), {}, options_.resend};
    std::string failure;
    {
      std::lock_guard lock(mutex_);
      failure = failure_;
      ++stats_.requests;
    }
    if (!failure.empty())
      return pending.request.done(error_reply(ErrorKind::kCommunicator, failure));
    const uint64_t id = next_request_++;
    pending.request.frame.request = id;
    Pending& kept = pending_.emplace(id, std::move(pending)).first->second;
    send_now(kept);
  });
}

Reply JobMember::call(MemberRequest request) {
  auto promise = std::make_shared<std::promise<Reply>>();
  request.done = [promise](Reply reply) { promise->set_value(std::move(reply)); };
  this->request(std::move(request));
  Reply reply = engine::get_interruptibly(promise->get_future());
  if (reply.error) throw *reply.error;
  return reply;
}

bool JobMember::send_now(Pending& pending) {
  const int peer = pending.request.peer;
  ConnectionId id = 0;
  if (peer == kScheduler)
    id = scheduler_ready_ ? scheduler_ : 0;
  else if (servers_[static_cast<size_t>(peer)].ready)
    id = servers_[static_cast<size_t>(peer)].connection;
  if (id == 0) return false;
  Frame frame = pending.request.frame;
  if (pending.was_sent) {
    // No other frame on that connection needs this copy: when the answer to the first one arrives,
    // the array may be written.
    if (!reactor_.quiet(id)) return false;
    const OwnBuffer copy = OwnBuffer::allocate(frame.data.bytes);
    if (copy.bytes > 0) std::memcpy(copy.data(), frame.data.data, copy.bytes);
    frame.data = copy.shared();
    std::lock_guard lock(mutex_);
    ++stats_.resends;
  }
  pending.was_sent = true;
  pending.sent = Clock::now();
  reactor_.send(id, std::move(frame));
  return true;
}

void JobMember::set_progress(std::string text) {
  std::lock_guard lock(mutex_);
  progress_ = std::move(text);
}

void JobMember::fail(const std::string& why) {
  reactor_.post([this, why] {
    // The scheduler notifies all processes, this one included.
    Pending pending{{kScheduler,
                     {FrameType::kFail, 0, encode_text(why), {}},
                     "report of a failure",
                     [](const Reply&) {}},
                    Clock::now(),
                    {},
                    options_.resend};
    const uint64_t id = next_request_++;
    pending.request.frame.request = id;
    send_now(pending_.emplace(id, std::move(pending)).first->second);
    if (!scheduler_ready_) fail_here(why);
  });
}

bool JobMember::failed() {
  std::lock_guard lock(mutex_);
  return !failure_.empty();
}

std::string JobMember::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

JobState JobMember::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

MemberStats JobMember::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

bool JobMember::servers_keep_snapshots() {
  std::lock_guard lock(mutex_);
  return snapshots_;
}

void JobMember::opened(ConnectionId id) {
  if (id != scheduler_ && server_of(id) < 0) return;  // a worker, which will send hello
  const Hello hello{options_.version, options_.role, registered_.rank, registered_.incarnation};
  reactor_.send(id, {FrameType::kHello, 0, encode(hello), {}});
}

int JobMember::server_of(ConnectionId id) const {
  for (size_t i = 0; i < servers_.size(); ++i)
    if (servers_[i].connection == id && id != 0) return static_cast<int>(i);
  return -1;
}

void JobMember::take_frame(ConnectionId id, Frame frame) {
  const int server = server_of(id);
  if (id != scheduler_ && server < 0) return events_.frame(id, std::move(frame));
  switch (frame.type) {
    case FrameType::kWelcome: {
      const auto welcome = decode<Welcome>(frame.body);
      reactor_.trust(id);
      std::lock_guard lock(mutex_);
      if (server < 0) {
        scheduler_ready_ = scheduler_open_ = true;
      } else {
        servers_[static_cast<size_t>(server)].ready = true;
        snapshots_ = snapshots_ || welcome.snapshots;
        ready_ = all_ready();
      }
      changed_.notify_all();
      break;
    }
    case FrameType::kRefused:
      return fail_here(decode_text(frame.body));
    case FrameType::kReply:
      return take_reply(std::move(frame));
    case FrameType::kState:
      if (server >= 0) throw FrameError(BadFrame::kOrder, "parameter server: a state of a server");
      return take_state(decode<JobState>(frame.body));
    default:
      throw FrameError(BadFrame::kOrder, "parameter server: an unexpected frame");
  }
  if (server < 0) return;
  Server& s = servers_[static_cast<size_t>(server)];
  const auto welcome = Clock::now();
  if (std::exchange(s.was_ready, true)) {
    {
      std::lock_guard lock(mutex_);
      ++stats_.reconnects;
    }
    events_.restored(server);
  }
  for (auto& [number, pending] : pending_)
    if (pending.request.peer == server && (!pending.was_sent || pending.sent < welcome)) {
      pending.was_sent = false;  // the queue of the old connection is lost
      send_now(pending);
    }
}

bool JobMember::all_ready() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.ready; });
}

void JobMember::take_reply(Frame frame) {
  const auto found = pending_.find(frame.request);
  if (found == pending_.end()) return;  // the answer arrived twice
  Reply reply = reply_of(std::move(frame));
  const auto done = std::move(found->second.request.done);
  pending_.erase(found);
  done(std::move(reply));
}

void JobMember::take_state(JobState now) {
  JobState before;
  {
    std::lock_guard lock(mutex_);
    if (now.version <= state_.version) return;
    before = std::exchange(state_, now);
    changed_.notify_all();
  }
  const auto same = [](const MemberState& a, const MemberState& b) {
    return a.status == b.status && a.incarnation == b.incarnation;
  };
  if (!std::equal(before.workers.begin(), before.workers.end(), now.workers.begin(),
                  now.workers.end(), same) ||
      !std::equal(before.servers.begin(), before.servers.end(), now.servers.begin(),
                  now.servers.end(), same))
    membership_changed_ = Clock::now();
  if (!now.failure.empty()) fail_here(now.failure);
  events_.changed(before, now);
  if (options_.role == Role::kWorker && now.running) connect_servers();
}

void JobMember::connect_servers() {
  if (registered_.epoch == 0) return;
  JobState state;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || state_.ended || !failure_.empty()) return;
    state = state_;
  }
  if (state.servers.size() != servers_.size()) return;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const MemberState& member = state.servers[i];
    Server& s = servers_[i];
    if (member.status != MemberStatus::kAlive || Clock::now() < s.next_attempt) continue;
    if (s.connection != 0 && s.incarnation == member.incarnation) continue;
    if (s.connection != 0) reactor_.close(std::exchange(s.connection, 0), "a newer server");
    s.ready = false;
    s.incarnation = member.incarnation;
    s.next_attempt = Clock::now() + duration_of(kRetrySeconds);
    try {
      const Address address = address_from_text(member.address);
      s.connection = reactor_.new_id();
      reactor_.connect(s.connection, address);
    } catch (const Error& e) {
      s.connection = 0;
      std::lock_guard lock(mutex_);
      connect_trouble_ = str("server ", i, ": ", e.what());
    }
  }
}

void JobMember::closed(ConnectionId id, const std::string& why) {
  if (id == scheduler_) {
    std::unique_lock lock(mutex_);
    const bool joined = scheduler_open_;
    connect_trouble_ = why;
    scheduler_ = 0;
    scheduler_ready_ = false;
    changed_.notify_all();
    if (!joined || stopping_ || state_.ended) return;
    lock.unlock();
    return fail_here(str(self(), ": the scheduler is lost (", why, ")"));
  }
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
  if (scheduler_ready_ && registered_.epoch != 0 &&
      seconds_since(heartbeat_sent_) > options_.heartbeat) {
    heartbeat_sent_ = Clock::now();
    std::unique_lock lock(mutex_);
    const Heartbeat heartbeat{state_.version, progress_};
    lock.unlock();
    // Heartbeats precede other frames: a long push must not look like a dead process.
    reactor_.send(scheduler_, {FrameType::kHeartbeat, 0, encode(heartbeat), {}, 1 << 30});
  }
  if (options_.role == Role::kWorker) connect_servers();
  std::vector<uint64_t> overdue;
  for (auto& [id, p] : pending_) {
    if (seconds_since(std::max(p.begun, membership_changed_)) > options_.timeout + kMargin)
      overdue.push_back(id);
    else if (!p.was_sent)
      send_now(p);
    else if (seconds_since(p.sent) > p.interval && send_now(p))
      p.interval = std::min(2 * p.interval, kLongestInterval * options_.resend);
  }
  for (const uint64_t id : overdue) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) continue;
    const MemberRequest request = std::move(found->second.request);
    pending_.erase(found);
    request.done(
        error_reply(ErrorKind::kCommunicator,
                    str(self(), ": ", request.what, ": no answer from ", peer_name(request.peer),
                        " within ", options_.timeout, " s (MXLITE_PS_TIMEOUT)")));
  }
  events_.tick();
}

void JobMember::fail_here(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = why;
    changed_.notify_all();
  }
  std::map<uint64_t, Pending> pending;
  pending.swap(pending_);
  for (auto& [id, p] : pending) p.request.done(error_reply(ErrorKind::kCommunicator, why));
  events_.failed(why);
}

}  // namespace mxlite::server
