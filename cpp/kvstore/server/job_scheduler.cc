#include "cpp/kvstore/server/job_scheduler.h"

#include <algorithm>
#include <cstdio>

namespace mxlite::server {
namespace {

constexpr double kLinger = 5;  // limit in seconds for notifying all processes of the end

}  // namespace

JobScheduler::JobScheduler(const Options& options)
    : Registry(kServerJob, options.key, options.version, options.num_workers, options.num_servers),
      options_(options),
      port_(reactor_
                .listen({!options.node_host.empty() ? options.node_host : options.root_host,
                         options.root_port})
                .port),
      placement_(options.num_servers) {}

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

JobScheduler::Entry* JobScheduler::place_for(const Registration& r, std::string& why) {
  if (r.num_workers != options_.num_workers || r.num_servers != options_.num_servers) {
    why = str("parameter server: a ", role_name(r.role), " expects ", r.num_workers,
              " workers and ", r.num_servers, " servers, the scheduler ", options_.num_workers,
              " and ", options_.num_servers, " (DMLC_NUM_WORKER, DMLC_NUM_SERVER)");
    return nullptr;
  }
  std::vector<Entry>& list = r.role == Role::kServer ? servers_ : workers_;
  const auto is_free = [](const Entry& e) {
    return e.state.status == MemberStatus::kMissing || e.state.status == MemberStatus::kLost;
  };
  if (r.rank >= 0 && r.rank < static_cast<int>(list.size()) &&
      is_free(list[static_cast<size_t>(r.rank)]))
    return &list[static_cast<size_t>(r.rank)];
  const auto found = std::find_if(list.begin(), list.end(), is_free);
  return found == list.end() ? nullptr : &*found;
}

void JobScheduler::take_frame(Entry& entry, const Frame& frame) {
  if (frame.type == FrameType::kBarrier) return barrier(entry, frame);
  if (frame.type == FrameType::kPlace) return place(entry, frame);
  throw FrameError(
      BadFrame::kOrder,
      "parameter server: the scheduler must get requests of members, got another frame");
}

void JobScheduler::left(Entry& entry) {
  state_.ended = std::all_of(workers_.begin(), workers_.end(),
                             [](const Entry& e) { return e.state.status == MemberStatus::kLeft; });
  state_.ended ? publish() : publish(entry);
  check_barriers();
}

void JobScheduler::barrier(Entry& worker, const Frame& frame) {
  const auto count = decode<uint64_t>(frame.body);
  worker.barriers = std::max(worker.barriers, count);
  const bool known =
      std::any_of(barrier_waits_.begin(), barrier_waits_.end(), [&](const WaitingMember& w) {
        return w.request == frame.request && w.connection == worker.connection;
      });
  if (!known)
    barrier_waits_.push_back({worker.connection, frame.request, count, worker.rank, Clock::now()});
  check_barriers();
}

// A replacement worker counts barriers from 0. It immediately passes barriers that all workers have
// already passed.
void JobScheduler::check_barriers() {
  uint64_t passed = ~uint64_t{0};
  for (const Entry& m : workers_) passed = std::min(passed, m.barriers);
  std::vector<WaitingMember> still;
  for (const WaitingMember& w : barrier_waits_) {
    std::string absent;
    for (const Entry& m : workers_)
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

void JobScheduler::place(const Entry& worker, const Frame& frame) {
  const auto request = decode<PlaceRequest>(frame.body);
  std::vector<int64_t> servers;
  for (size_t i = 0; i < request.keys.size(); ++i) {
    const std::string& key = request.keys[i];
    servers.push_back(placement_.place(key, request.bytes[i]));
    placement_.note(key, worker.rank, request.specs[i]);
    const std::string conflict = request.settled ? placement_.conflict(key) : std::string();
    if (!conflict.empty())
      return answer(
          worker.connection, frame.request,
          error_reply(ErrorKind::kValue,
                      str("init: key '", key, "': all workers must give the same shape and type; ",
                          conflict)));
  }
  FrameWriter w;
  w.numbers(servers);
  answer(worker.connection, frame.request, {{}, w.take(), {}});
}

void JobScheduler::lose(Entry& e, const std::string& why) {
  if (e.state.status != MemberStatus::kAlive || state_.ended) return;
  const std::string text = lost_text(e, why);
  const bool may_return =
      options_.rejoin > 0 && (e.role == Role::kWorker || e.registration.snapshots);
  if (!may_return) return fail_job(text);
  std::fprintf(stderr, "mxlite: %s; %g s to come back\n", text.c_str(), options_.rejoin);
  publish(e);
}

std::string JobScheduler::missing() const {
  std::string text;
  for (const std::vector<Entry>* list : {&workers_, &servers_}) {
    size_t here = 0;
    for (const Entry& m : *list) here += m.state.status == MemberStatus::kAlive;
    text += str(text.empty() ? "" : ", ", here, " of ", list->size(),
                list == &workers_ ? " workers" : " servers");
  }
  return text;
}

bool JobScheduler::end_if_over() {
  if (!state_.ended && state_.failure.empty()) return false;
  if (over_since_ == Clock::time_point{}) over_since_ = Clock::now();
  // Waits until all processes are notified. A process that has missed the frame gets it after its
  // next heartbeat.
  const std::vector<Entry*> list = all();
  const bool alone =
      std::all_of(list.begin(), list.end(), [](const Entry* m) { return m->connection == 0; });
  if (!alone && seconds_since(over_since_) < kLinger) return true;
  std::lock_guard lock(mutex_);
  over_ = true;
  failure_ = state_.failure;
  over_changed_.notify_all();
  return true;
}

void JobScheduler::tick() {
  if (end_if_over()) return;
  check_silence();
  for (Entry* m : all())
    if (m->state.status == MemberStatus::kLost && seconds_since(m->lost) > options_.rejoin)
      fail_job(str(role_name(m->role), " ", m->rank, " (", m->registration.where(),
                   ") is lost and did not come back within ", options_.rejoin,
                   " s (MXLITE_PS_REJOIN)"));
  if (!state_.running && seconds_since(begun_) > options_.timeout) {
    const std::string trouble = reactor_.shortage_text();
    fail_job(str("parameter server: only ", missing(), " have joined within ", options_.timeout,
                 " s (MXLITE_PS_TIMEOUT)", trouble.empty() ? "" : "; ", trouble));
  }
  for (const WaitingMember& w : barrier_waits_) {
    if (seconds_since(std::max(w.since, changed_)) <= options_.timeout) continue;
    std::string absent;
    for (const Entry& m : workers_)
      if (m.barriers < w.count)
        absent += str(absent.empty() ? "" : ", ", m.rank,
                      m.progress.empty() ? "" : str(" (its last operation: ", m.progress, ")"));
    return fail_job(str("parameter server: worker ", absent, " did not come to barrier ", w.count,
                        " within ", options_.timeout, " s (MXLITE_PS_TIMEOUT); worker ", w.rank,
                        " waits for it"));
  }
}

}  // namespace mxlite::server
