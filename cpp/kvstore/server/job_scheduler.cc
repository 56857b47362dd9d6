#include "cpp/kvstore/server/job_scheduler.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::server {
namespace {

constexpr double kLinger = 5;  // seconds at the end in which all processes are notified

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

JobScheduler::JobScheduler(const Options& options)
    : options_(options), placement_(options.num_servers), reactor_(options.key) {
  std::random_device random;
  while (epoch_ == 0) epoch_ = random();
  workers_.resize(static_cast<size_t>(options.num_workers));
  servers_.resize(static_cast<size_t>(options.num_servers));
  for (size_t i = 0; i < servers_.size(); ++i) servers_[i].role = Role::kServer;
  for (std::vector<Member>* list : {&workers_, &servers_})
    for (size_t i = 0; i < list->size(); ++i) (*list)[i].rank = static_cast<int>(i);
  reactor_.set_handlers({[](ConnectionId) {},
                         [this](ConnectionId id, Frame f) { take_frame(id, std::move(f)); },
                         [this](ConnectionId id, const std::string& why) {
                           if (Member* m = member_of(id)) {
                             m->connection = 0;
                             lose(*m, why);
                           }
                         },
                         [this] { tick(); }});
  reactor_.set_epoch(epoch_);
  const int members = options.num_workers + options.num_servers;
  reserve_descriptors(str("parameter server: the scheduler of ", members, " processes"),
                      members + kOwnDescriptors, kMostStrangers);
  const std::string host = !options.node_host.empty() ? options.node_host : options.root_host;
  port_ = reactor_.listen({host, options.root_port});
}

JobScheduler::~JobScheduler() { reactor_.stop(0); }

void JobScheduler::run(const std::function<void()>& interrupted) {
  reactor_.start("mxlite-ps-sched");
  std::unique_lock lock(mutex_);
  while (!over_) {
    over_changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return over_; });
    if (over_) break;
    lock.unlock();
    interrupted();
    lock.lock();
  }
  const std::string failure = failure_;
  lock.unlock();
  reactor_.stop(1);
  if (!failure.empty()) fail(ErrorKind::kCommunicator, failure);
}

JobScheduler::Member* JobScheduler::member_of(ConnectionId id) {
  for (Member* m : all())
    if (m->connection == id && id != 0) return m;
  return nullptr;
}

std::vector<JobScheduler::Member*> JobScheduler::all() {
  std::vector<Member*> list;
  for (Member& m : workers_) list.push_back(&m);
  for (Member& m : servers_) list.push_back(&m);
  return list;
}

void JobScheduler::take_frame(ConnectionId id, Frame frame) {
  if (frame.type == FrameType::kHello) {
    const auto hello = decode<Hello>(frame.body);
    if (hello.version != options_.version) {
      reactor_.send(id, {FrameType::kRefused,
                         0,
                         encode_text(str("a ", role_name(hello.role), " runs mxlite ",
                                         hello.version, ", the scheduler ", options_.version,
                                         ": all processes need the same version")),
                         {}});
      return;
    }
    reactor_.trust(id);
    reactor_.send(id, {FrameType::kWelcome, 0, encode(Welcome{}), {}});
    return;
  }
  if (frame.type == FrameType::kRegister) return register_member(id, frame);
  Member* member = member_of(id);
  if (!member) throw FrameError(BadFrame::kOrder, "parameter server: a frame before registration");
  member->seen = Clock::now();
  switch (frame.type) {
    case FrameType::kHeartbeat: {
      const auto heartbeat = decode<Heartbeat>(frame.body);
      member->progress = heartbeat.progress;
      if (heartbeat.state_version < state_.version) send_state(id);
      break;
    }
    case FrameType::kBarrier:
      return barrier(id, frame);
    case FrameType::kPlace:
      return place(*member, frame);
    case FrameType::kFail:
      fail_job(decode_text(frame.body));
      return answer(id, frame.request, {});
    case FrameType::kBye:
      answer(id, frame.request, {});
      if (member->state.status == MemberStatus::kAlive) {
        member->state.status = MemberStatus::kLeft;
        change_ended();
        publish();
        check_barriers();
      }
      break;
    default:
      throw FrameError(BadFrame::kOrder, "parameter server: not a frame for the scheduler");
  }
}

JobScheduler::Member* JobScheduler::free_place(const Registration& r) {
  std::vector<Member>& list = r.role == Role::kServer ? servers_ : workers_;
  const auto is_free = [](const Member& m) {
    return m.state.status == MemberStatus::kMissing || m.state.status == MemberStatus::kLost;
  };
  if (r.rank >= 0 && r.rank < static_cast<int>(list.size()) &&
      is_free(list[static_cast<size_t>(r.rank)]))
    return &list[static_cast<size_t>(r.rank)];
  const auto found = std::find_if(list.begin(), list.end(), is_free);
  return found == list.end() ? nullptr : &*found;
}

void JobScheduler::register_member(ConnectionId id, const Frame& frame) {
  const auto r = decode<Registration>(frame.body);
  Member* member = member_of(id);  // registers again: the answer was lost
  if (!member) {
    if (r.num_workers != options_.num_workers || r.num_servers != options_.num_servers)
      return answer(id, frame.request,
                    error_reply(ErrorKind::kCommunicator,
                                str("parameter server: a ", role_name(r.role), " expects ",
                                    r.num_workers, " workers and ", r.num_servers,
                                    " servers, the scheduler ", options_.num_workers, " and ",
                                    options_.num_servers, " (DMLC_NUM_WORKER, DMLC_NUM_SERVER)")));
    if (!state_.failure.empty())
      return answer(id, frame.request, error_reply(ErrorKind::kCommunicator, state_.failure));
    if (state_.ended)
      return answer(id, frame.request,
                    error_reply(ErrorKind::kCommunicator, "parameter server: the job has ended"));
    member = free_place(r);
    if (!member) return;  // it asks again; meanwhile the loss of a process may be noticed
    member->rejoined = member->state.status == MemberStatus::kLost;
    member->connection = id;
    member->where = str("host ", r.host, ", process ", r.process);
    member->progress.clear();
    member->snapshots = r.snapshots;
    member->seen = Clock::now();
    member->state.status = MemberStatus::kAlive;
    member->state.incarnation = ++incarnations_;
    member->state.address = r.address;
    if (member->rejoined)
      std::fprintf(stderr, "mxlite: %s %d has been replaced (%s)\n", role_name(r.role),
                   member->rank, member->where.c_str());
  }
  answer(id, frame.request,
         {{},
          encode(Registered{member->rank, epoch_, member->state.incarnation, member->rejoined}),
          {}});
  const std::vector<Member*> list = all();
  state_.running = state_.running || std::all_of(list.begin(), list.end(), [](const Member* m) {
                     return m->state.status == MemberStatus::kAlive;
                   });
  publish();
}

void JobScheduler::barrier(ConnectionId id, const Frame& frame) {
  Member& member = *member_of(id);
  const uint64_t count = decode_number(frame.body);
  member.barriers = std::max(member.barriers, count);
  const bool known = std::any_of(
      barrier_waits_.begin(), barrier_waits_.end(),
      [&](const Waiting& w) { return w.request == frame.request && w.connection == id; });
  if (!known) barrier_waits_.push_back({id, frame.request, count, member.rank, Clock::now()});
  check_barriers();
}

// A worker that comes back counts from 0 and passes the barriers that all others have passed.
void JobScheduler::check_barriers() {
  uint64_t passed = ~uint64_t{0};
  for (const Member& m : workers_) passed = std::min(passed, m.barriers);
  std::vector<Waiting> still;
  for (const Waiting& w : barrier_waits_) {
    std::string absent;
    for (const Member& m : workers_)
      if (m.barriers < w.count && m.state.status == MemberStatus::kLeft)
        absent += str(absent.empty() ? "" : ", ", m.rank);
    if (w.count <= passed)
      answer(w.connection, w.request, {});
    else if (!absent.empty())
      answer(w.connection, w.request,
             error_reply(ErrorKind::kCommunicator, str("parameter server: barrier ", w.count,
                                                       ": worker ", absent, " has left the job")));
    else
      still.push_back(w);
  }
  barrier_waits_ = std::move(still);
}

void JobScheduler::place(const Member& worker, const Frame& frame) {
  const auto request = decode<PlaceRequest>(frame.body);
  std::vector<int64_t> servers;
  for (size_t i = 0; i < request.keys.size(); ++i) {
    const std::string& key = request.keys[i];
    servers.push_back(placement_.place(key, request.bytes[i]));
    placement_.note(key, worker.rank, request.specs[i]);
    const std::string conflict = request.settled ? placement_.conflict(key) : std::string();
    if (!conflict.empty())
      return answer(worker.connection, frame.request,
                    error_reply(ErrorKind::kValue, str("init: key '", key, "': ", conflict,
                                                       ": the same shape and type expected")));
  }
  FrameWriter w;
  w.numbers(servers);
  answer(worker.connection, frame.request, {{}, w.take(), {}});
}

void JobScheduler::answer(ConnectionId id, uint64_t request, Reply reply) {
  reactor_.send(id, reply_frame(request, std::move(reply)));
}

void JobScheduler::lose(Member& m, const std::string& why) {
  if (m.state.status != MemberStatus::kAlive || state_.ended) return;
  const std::string text = str(role_name(m.role), " ", m.rank, " (", m.where, ") is lost: ", why,
                               m.progress.empty() ? "" : "; its last operation: ", m.progress);
  m.state.status = MemberStatus::kLost;
  m.lost = Clock::now();
  const bool may_return = options_.rejoin > 0 && (m.role == Role::kWorker || m.snapshots);
  if (!may_return) return fail_job(text);
  std::fprintf(stderr, "mxlite: %s; %g s to come back\n", text.c_str(), options_.rejoin);
  publish();
}

void JobScheduler::fail_job(const std::string& why) {
  if (!state_.failure.empty() || state_.ended) return;
  state_.failure = why;
  over_since_ = Clock::now();
  publish();
}

void JobScheduler::change_ended() {
  if (!std::all_of(workers_.begin(), workers_.end(),
                   [](const Member& m) { return m.state.status == MemberStatus::kLeft; }))
    return;
  state_.ended = true;
  over_since_ = Clock::now();
}

std::string JobScheduler::missing() const {
  std::string text;
  for (const std::vector<Member>* list : {&workers_, &servers_}) {
    size_t here = 0;
    for (const Member& m : *list) here += m.state.status == MemberStatus::kAlive;
    text += str(text.empty() ? "" : ", ", here, " of ", list->size(),
                list == &workers_ ? " workers" : " servers");
  }
  return text;
}

void JobScheduler::tick() {
  if (over_since_ != Clock::time_point{}) {
    // All are notified: processes that did not get the frame ask with their next heartbeat.
    const std::vector<Member*> list = all();
    const bool alone =
        std::all_of(list.begin(), list.end(), [](const Member* m) { return m->connection == 0; });
    if (!alone && seconds_since(over_since_) < kLinger) return;
    std::lock_guard lock(mutex_);
    over_ = true;
    failure_ = state_.failure;
    over_changed_.notify_all();
    return;
  }
  for (Member* m : all()) {
    if (m->state.status == MemberStatus::kAlive && seconds_since(m->seen) > options_.silence) {
      reactor_.close(std::exchange(m->connection, 0), "silent");
      lose(*m, str("no heartbeat for ", options_.silence, " s"));
    } else if (m->state.status == MemberStatus::kLost && seconds_since(m->lost) > options_.rejoin) {
      fail_job(str(role_name(m->role), " ", m->rank, " (", m->where, ") is lost and did not come ",
                   "back within ", options_.rejoin, " s (MXLITE_PS_REJOIN)"));
    }
  }
  if (!state_.running && seconds_since(begun_) > options_.timeout) {
    const std::string trouble = reactor_.shortage_text();
    fail_job(str("parameter server: only ", missing(), " have come within ", options_.timeout,
                 " s (MXLITE_PS_TIMEOUT)", trouble.empty() ? "" : "; ", trouble));
  }
  for (const Waiting& w : barrier_waits_) {
    if (seconds_since(std::max(w.since, changed_)) <= options_.timeout) continue;
    std::string absent;
    for (const Member& m : workers_)
      if (m.barriers < w.count)
        absent += str(absent.empty() ? "" : ", ", m.rank,
                      m.progress.empty() ? "" : str(" (its last operation: ", m.progress, ")"));
    return fail_job(str("parameter server: worker ", absent, " did not come to barrier ", w.count,
                        " within ", options_.timeout, " s (MXLITE_PS_TIMEOUT); worker ", w.rank,
                        " waits for it"));
  }
}

void JobScheduler::publish() {
  ++state_.version;
  changed_ = Clock::now();
  state_.workers.clear();
  state_.servers.clear();
  for (const Member& m : workers_) state_.workers.push_back(m.state);
  for (const Member& m : servers_) state_.servers.push_back(m.state);
  for (const Member* m : all())
    if (m->connection != 0) send_state(m->connection);
}

void JobScheduler::send_state(ConnectionId id) {
  reactor_.send(id, {FrameType::kState, 0, encode(state_), {}, 1 << 30});
}

}  // namespace mxlite::server
