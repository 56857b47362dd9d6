#include "cpp/kvstore/comm/members/member.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <variant>

#include "cpp/engine/blocking.h"

namespace mxlite::members {
namespace {

constexpr double kRetrySeconds = 0.1;
constexpr int kMostUnanswered = 3;  // number of connections that the scheduler may close without an
                                    // answer
constexpr double kMargin = 3;  // seconds added to the timeout, so that the scheduler and servers,
                               // which know the cause, report a failure first
constexpr double kLongestInterval = 8;  // limit of the interval between resends, in units of the
                                        // first interval
constexpr int kUrgent = 1 << 30;        // priority of heartbeats

}  // namespace

Member::Member(const JobKind& kind, MemberOptions options)
    : kind_(kind), options_(std::move(options)), reactor_(options_.key, "this process") {
  registered_.rank = options_.registration.rank;
  reactor_.set_handlers({[this](ConnectionId id) {
                           if (id != scheduler_) return opened(id);
                           scheduler_connected_ = true;
                           send_hello(id);
                         },
                         [this](ConnectionId id, Frame f) { take(id, std::move(f)); },
                         [this](ConnectionId id, const std::string& why, bool is_invalid) {
                           lose(id, why, is_invalid);
                         },
                         [this] { on_tick(); }});
}

Registered Member::join(const char* thread_name) {
  reactor_.start(thread_name);
  connect();
  Registration registration = options_.registration;
  registration.clamp();
  // The result must be set before the next frame is read, because that frame may start the job. The
  // promise holds an Error and not an exception_ptr, which the last thread to release it would
  // free.
  auto answer = std::make_shared<std::promise<std::variant<Registered, Error>>>();
  request({kScheduler,
           {FrameType::kRegister, 0, encode(std::move(registration)), {}},
           "registration with the scheduler",
           [this, answer](Reply reply) {
             try {
               if (reply.error) throw *reply.error;
               registered_ = decode<Registered>(reply.body);
               reactor_.set_epoch(registered_.epoch);
               answer->set_value(registered_);
             } catch (const Error& e) {
               answer->set_value(e);
             }
           }});
  const auto result = engine::get_interruptibly(answer->get_future());
  if (const Error* error = std::get_if<Error>(&result)) throw *error;
  return std::get<Registered>(result);
}

void Member::connect() {
  const auto start = Clock::now();
  const std::string where = address_text(options_.scheduler);
  std::string trouble;
  for (int unanswered = 0;;) {  // the scheduler may start later than this process
    {
      std::lock_guard lock(mutex_);
      scheduler_open_ = closed_unanswered_ = false;
      connect_trouble_.clear();
    }
    try {
      const ConnectionId id = reactor_.new_id();
      reactor_.post([this, id] { scheduler_ = id; });
      reactor_.connect(id, options_.scheduler);
      std::unique_lock lock(mutex_);
      engine::wait_interruptibly(
          lock, changed_,
          [this] { return scheduler_open_ || !connect_trouble_.empty() || !failure_.empty(); },
          Clock::now() + duration_of(std::max(1.0, options_.timeout - seconds_since(start))));
      if (!failure_.empty()) mxlite::fail(ErrorKind::kCommunicator, failure_);
      if (scheduler_open_) return;
      trouble = connect_trouble_.empty() ? "no answer" : connect_trouble_;
      unanswered = closed_unanswered_ ? unanswered + 1 : 0;
    } catch (const Error& e) {
      if (failed()) throw;
      trouble = e.what();
    }
    MX_CHECK_KIND(unanswered < kMostUnanswered, ErrorKind::kCommunicator, kind_.source, ": ",
                  self(), ": ", where, " has closed the connection without an answer; either ",
                  kind_.token_variable, " is that of another job, or ", kind_.scheduler,
                  " has ended");
    MX_CHECK_KIND(seconds_since(start) < options_.timeout, ErrorKind::kCommunicator, kind_.source,
                  ": ", self(), " cannot reach ", where, " (", kind_.address_variables, ") within ",
                  options_.timeout, " s: ", trouble);
    std::unique_lock lock(mutex_);
    engine::wait_interruptibly(
        lock, changed_, [this] { return stopping_; }, Clock::now() + duration_of(kRetrySeconds));
  }
}

void Member::wait_until_running() {
  std::unique_lock lock(mutex_);
  const bool came = engine::wait_interruptibly(
      lock, changed_, [this] { return !failure_.empty() || (state_.running && is_ready()); },
      Clock::now() + duration_of(options_.timeout + kMargin));
  if (!failure_.empty()) mxlite::fail(ErrorKind::kCommunicator, failure_);
  if (came) return;
  const std::string trouble = connect_trouble_;
  lock.unlock();
  mxlite::fail(ErrorKind::kCommunicator, self(), ": the job did not start within ",
               options_.timeout, " s", trouble.empty() ? "" : ": ", trouble);
}

void Member::stop(double flush_seconds) noexcept {
  if (reactor_.is_in_fork()) return reactor_.stop(0);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  reactor_.post([this] { fail_here("this process has left the job"); });
  reactor_.stop(flush_seconds);
}

std::string Member::self() const {
  const char* name = kind_.name_of(options_.registration.role);
  return registered_.rank < 0 ? name : str(name, " ", registered_.rank);
}

void Member::request(MemberRequest request) {
  bool stopping = false;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
  }
  if (stopping)
    return request.done(error_reply(ErrorKind::kCommunicator, "this process has left the job"));
  reactor_.run([this, request = std::move(request)]() mutable {
    PendingRequest pending{std::move(request), Clock::now(), {}, options_.resend};
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
    send_now(pending_.emplace(id, std::move(pending)).first->second);
  });
}

Reply Member::call(MemberRequest request) {
  auto promise = std::make_shared<std::promise<Reply>>();
  request.done = [promise](Reply reply) { promise->set_value(std::move(reply)); };
  this->request(std::move(request));
  Reply reply = engine::get_interruptibly(promise->get_future());
  if (reply.error) throw *reply.error;
  return reply;
}

bool Member::send_now(PendingRequest& pending) {
  const ConnectionId id = connection_to(pending.request.peer);
  if (id == 0) return false;
  Frame frame = pending.request.frame;
  if (pending.was_sent) {
    // Copies the data, because the answer to the first frame may arrive while this frame is being
    // sent. After the answer, the array may be overwritten.
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

void Member::resend_to(int peer, Clock::time_point before) {
  for (auto& [number, pending] : pending_)
    if (pending.request.peer == peer && (!pending.was_sent || pending.sent < before)) {
      pending.was_sent = false;  // the closed connection has dropped its queue
      send_now(pending);
    }
}

void Member::set_progress(std::string text) {
  std::lock_guard lock(mutex_);
  progress_ = std::move(text);
}

void Member::fail(const std::string& why) {
  reactor_.post([this, why] {
    if (ready_scheduler_ == 0) return fail_here(why);
    // The scheduler notifies all processes, including this one.
    request({kScheduler,
             {FrameType::kFail, 0, encode(why), {}},
             "report of a failure",
             [](const Reply&) {}});
  });
}

std::string Member::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

JobState Member::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

bool Member::is_over() {
  std::lock_guard lock(mutex_);
  return stopping_ || state_.ended || !failure_.empty();
}

MemberStats Member::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Member::send_hello(ConnectionId id, uint64_t group) {
  const Hello hello{options_.version, options_.registration.role, registered_.rank,
                    registered_.incarnation, group};
  reactor_.send(id, {FrameType::kHello, 0, encode(hello), {}});
}

void Member::take(ConnectionId id, Frame frame) {
  if (id != scheduler_) return take_frame(id, std::move(frame));
  switch (frame.type) {
    case FrameType::kWelcome: {
      reactor_.trust(id);
      ready_scheduler_ = id;
      std::lock_guard lock(mutex_);
      scheduler_open_ = true;
      changed_.notify_all();
      return;
    }
    case FrameType::kRefused:
      return fail_here(decode<std::string>(frame.body));
    case FrameType::kReply:
      return take_reply(std::move(frame));
    case FrameType::kState:
      return take_state(decode<JobState>(frame.body));
    case FrameType::kChange:
      return take_change(decode<MemberChange>(frame.body));
    default:
      return take_frame(id, std::move(frame));
  }
}

void Member::take_reply(Frame frame) {
  const auto found = pending_.find(frame.request);
  if (found == pending_.end()) return;  // the answer arrived twice
  Reply reply = reply_of(std::move(frame));
  const auto done = std::move(found->second.request.done);
  pending_.erase(found);
  done(std::move(reply));
}

void Member::take_state(JobState now) {
  JobState before;
  {
    std::lock_guard lock(mutex_);
    if (now.version <= state_.version) return;
    before = std::exchange(state_, now);
    changed_.notify_all();
  }
  for (const Role role : {Role::kWorker, Role::kServer}) {
    std::vector<MemberState>& old = before.members(role);
    std::vector<MemberState>& list = now.members(role);
    old.resize(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] == old[i]) continue;
      membership_changed_ = Clock::now();
      member_changed(role, static_cast<int>(i), list[i]);
    }
  }
  if (!now.failure.empty()) fail_here(now.failure);
  changed();
}

// Ignores a change that does not follow the known state. The next heartbeat then requests the new
// state.
void Member::take_change(MemberChange change) {
  {
    std::lock_guard lock(mutex_);
    std::vector<MemberState>& list = state_.members(change.role);
    if (change.version != state_.version + 1 || change.rank >= list.size()) return;
    state_.version = change.version;
    list[change.rank] = change.state;
    changed_.notify_all();
  }
  membership_changed_ = Clock::now();
  member_changed(change.role, static_cast<int>(change.rank), change.state);
  changed();
}

void Member::lose(ConnectionId id, const std::string& why, bool is_invalid) {
  if (id != scheduler_) return closed(id, why, is_invalid);
  std::unique_lock lock(mutex_);
  const bool joined = scheduler_open_;
  connect_trouble_ = why;
  closed_unanswered_ = !joined && std::exchange(scheduler_connected_, false);
  scheduler_ = ready_scheduler_ = 0;
  changed_.notify_all();
  if (!joined || stopping_ || state_.ended) return;
  lock.unlock();
  fail_here(str(self(), ": ", kind_.scheduler, " at ", address_text(options_.scheduler),
                " is lost (", why, ")"));
}

void Member::on_tick() {
  if (ready_scheduler_ != 0 && registered_.epoch != 0 &&
      seconds_since(heartbeat_sent_) > options_.heartbeat) {
    heartbeat_sent_ = Clock::now();
    std::unique_lock lock(mutex_);
    const Heartbeat heartbeat{state_.version, progress_};
    lock.unlock();
    // Heartbeats are sent before other frames, so that a process with a long push does not count as
    // lost.
    reactor_.send(scheduler_, {FrameType::kHeartbeat, 0, encode(heartbeat), {}, kUrgent});
  }
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
                        " within ", options_.timeout, " s (", kind_.timeout_variable, ")")));
  }
  tick();
}

void Member::fail_here(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = why;
    changed_.notify_all();
  }
  std::map<uint64_t, PendingRequest> pending;
  pending.swap(pending_);
  for (auto& [id, p] : pending) p.request.done(error_reply(ErrorKind::kCommunicator, why));
  has_failed(why);
}

}  // namespace mxlite::members
