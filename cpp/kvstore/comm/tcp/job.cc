#include "cpp/kvstore/comm/tcp/job.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::tcp {
namespace {

constexpr int kStepMs = 100;
// The rendezvous names a silent rank before those that wait for it reach their deadline.
constexpr double kSilenceShare = 0.8;
constexpr double kHeartbeat = 1;        // seconds
constexpr double kAnswerSeconds = 5;    // after the timeout, for the rendezvous to name the missing
constexpr double kLeaveSeconds = 2;     // within which the last frame must be sent
constexpr double kGreetingSeconds = 5;  // within which a connection must prove the token
constexpr double kPassSeconds = 0.1;    // for new connections, before others are served again
constexpr size_t kMostArriving = 256;   // connections that have not proved the token
constexpr size_t kMostFailedGroups = 1024;
constexpr size_t kMostTextBytes = 4096;

short events_of(const Link& link) {
  return static_cast<short>(POLLIN | (link.wants_write() ? POLLOUT : 0));
}

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

template <class... Args>
[[noreturn]] void broken(const Args&... args) {
  fail(ErrorKind::kCommunicator, kJobFrame, ": ", args...);
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

bool GroupState::take_announcement() noexcept { return announce_.exchange(false); }

Job::Job(const JobPlace& place)
    : place_(place),
      key_(key_of_secret(place.token)),
      owner_(getpid()),
      presence_(static_cast<size_t>(place.size)) {
  int ends[2];
  MX_CHECK_KIND(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, ErrorKind::kCommunicator, kJobFrame,
                ": pipe: ", std::strerror(errno));
  wake_reader_ = Socket(ends[0]);
  wake_writer_ = Socket(ends[1]);
  wait_for_table();
  sigset_t all, before;  // signals go to the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "mxlite-job");
}

void Job::leave() noexcept {
  if (!thread_.joinable()) return;
  if (owner_ != getpid()) return thread_.detach();  // a fork has no such thread
  leaving_ = true;
  wake();
  thread_.join();
}

Body Job::register_here() {
  std::string host = place_.listen_host;
  if (host.empty()) host = local_address(link_->socket()).host;
  listener_ = listen_at({host, 0});
  set_nonblocking(listener_);
  Registration r;
  r.rank = place_.rank;
  r.size = place_.size;
  r.host = place_.host;
  r.address = address_text({host, local_address(listener_).port});
  r.process = owner_;
  r.timeout = comm_timeout();
  r.silence = kSilenceShare * silence_limit();
  return encode(r);
}

void Job::wait_for_table() {
  const Deadline deadline(comm_timeout());
  const std::string where = address_text(place_.rendezvous);
  for (std::string trouble; !link_;) {
    Socket socket = connect_to(place_.rendezvous, trouble);
    if (socket) {
      link_ = std::make_unique<Link>(std::move(socket), key_, /*accepted=*/false);
    } else {
      if (deadline.over())
        broken("rank ", place_.rank, " cannot reach ", where, " (MXLITE_JOB_ADDRESS) within ",
               comm_timeout(), " s: ", trouble);
      std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
    }
  }
  link_->send(FrameKind::kRegister, register_here());
  // The rendezvous answers when this process's timeout is over; it knows which ranks are missing.
  const Deadline answer(comm_timeout() + kAnswerSeconds);
  for (bool open = true;;) {
    open = link_->move() && open;
    while (const auto frame = link_->take()) {
      if (frame->kind == FrameKind::kRefused) broken(decode_text(frame->body));
      if (frame->kind == FrameKind::kTable) {
        table_ = decode<Table>(frame->body);
        if (table_.hosts.size() != static_cast<size_t>(place_.size))
          broken("a table of ", table_.hosts.size(), " ranks, ", place_.size, " expected");
        return;
      }
      open = link_->move() && open;
    }
    if (!open)
      broken("rank ", place_.rank, ": ", where,
             " has closed the connection; MXLITE_JOB_TOKEN of another job, or the launcher ended");
    if (answer.over())
      broken("rank ", place_.rank, ": no answer from ", where, " within ", comm_timeout(), " s");
    send_heartbeat();
    pollfd polled{link_->descriptor(), events_of(*link_), 0};
    poll(&polled, 1, kStepMs);
  }
}

void Job::send_heartbeat() {
  const double interval = std::min(kHeartbeat, silence_limit() / 4);
  if (seconds_since(beat_) < interval) return;
  beat_ = Clock::now();
  link_->send(FrameKind::kHeartbeat, {});
}

void Job::loop() noexcept {
  try {
    while (step()) {
    }
  } catch (const std::exception& e) {
    fail_groups_of(-1, e.what());
  }
}

bool Job::step() {
  send_heartbeat();
  announce_failures();
  if (leaving_) {
    link_->send(FrameKind::kLeave, {});
    const Deadline deadline(kLeaveSeconds);
    while (link_->move() && !link_->sent_all() && !deadline.over()) {
      while (link_->take()) {
      }
      pollfd polled{link_->descriptor(), POLLOUT, 0};
      poll(&polled, 1, kStepMs);
    }
    return false;
  }
  bool open = link_->move();
  while (const auto frame = link_->take()) {
    take_frame(*frame);
    open = link_->move() && open;
  }
  if (!open)
    broken("rank ", place_.rank, ": the launcher at ", address_text(place_.rendezvous), " is gone");
  pollfd polled[] = {{link_->descriptor(), events_of(*link_), 0}, {wake_reader_.get(), POLLIN, 0}};
  poll(polled, 2, kStepMs);
  char drained[64];
  while (read(wake_reader_.get(), drained, sizeof drained) > 0) {
  }
  return true;
}

void Job::take_frame(const WireFrame& frame) {
  switch (frame.kind) {
    case FrameKind::kLeft: {
      const auto m = decode<Departure>(frame.body);
      if (m.rank < place_.size) presence_[static_cast<size_t>(m.rank)] = Presence::kLeft;
      return;
    }
    case FrameKind::kLost: {
      const auto m = decode<Departure>(frame.body);
      if (m.rank >= place_.size) return;
      fail_groups_of(m.rank, m.why);
      presence_[static_cast<size_t>(m.rank)] = Presence::kLost;
      return;
    }
    case FrameKind::kGroupFailure: {
      const auto m = decode<GroupFailure>(frame.body);
      std::lock_guard lock(mutex_);
      // Groups that this process has not formed yet fail when it does.
      if (failed_groups_.size() < kMostFailedGroups) failed_groups_.emplace(m.group, m.why);
      for (const auto& group : groups_)
        if (group->id == m.group) group->fail(m.why.c_str(), /*announce=*/false);
      return;
    }
    default:
      broken("a frame that the rendezvous does not send");
  }
}

void Job::announce_failures() {
  std::lock_guard lock(mutex_);
  std::erase_if(groups_, [this](const auto& group) {
    const bool is_gone = group.use_count() == 1;  // nothing can fail it any more
    if (group->take_announcement())
      link_->send(FrameKind::kGroupFailure,
                  encode(GroupFailure{group->id, group->failure().substr(0, kMostTextBytes)}));
    return is_gone;
  });
}

void Job::fail_groups_of(int rank, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (rank < 0)
    broken_ = why;
  else
    lost_.emplace(rank, why);
  for (const auto& group : groups_)
    if (rank < 0 || std::count(group->members.begin(), group->members.end(), rank) > 0)
      group->fail(why.c_str(), /*announce=*/false);
}

void Job::watch(const std::shared_ptr<GroupState>& group) {
  std::lock_guard lock(mutex_);
  groups_.push_back(group);
  if (!broken_.empty()) group->fail(broken_.c_str(), false);
  for (const int member : group->members)
    if (const auto found = lost_.find(member); found != lost_.end())
      group->fail(found->second.c_str(), false);
  if (const auto found = failed_groups_.find(group->id); found != failed_groups_.end())
    group->fail(found->second.c_str(), false);
}

void Job::wake() noexcept {
  const char byte = 0;
  static_cast<void>(!write(wake_writer_.get(), &byte, 1));
}

// Throws the group's failure, which is this text unless another one came first.
void Job::fail_group(GroupState& group, const std::string& text) {
  group.fail(text.c_str(), /*announce=*/true);
  wake();
  fail(ErrorKind::kCommunicator, group.failure());
}

// Takes connections that members of any group open. Peers that send no valid greeting are dropped.
int Job::accept_members() {
  int shortage = 0;
  while (arriving_.size() < kMostArriving) {
    Socket socket = accept_from(listener_, shortage);
    if (!socket) break;
    arriving_.push_back({Link(std::move(socket), key_, /*accepted=*/true), Clock::now()});
  }
  std::erase_if(arriving_, [&](Arriving& arriving) {
    Link& link = arriving.link;
    try {
      bool open = link.move();
      if (const auto frame = link.take()) {
        if (frame->kind != FrameKind::kHello) return true;
        const auto hello = decode<Hello>(frame->body);
        link.send(FrameKind::kWelcome, {});
        // An answer of a few bytes fits into the buffer of a new connection. The bytes after it are
        // for the group.
        open = link.flush() && open;
        if (open && link.sent_all())
          accepted_.insert_or_assign({hello.group, hello.rank}, link.release());
        return true;
      }
      return !open || seconds_since(arriving.since) > kGreetingSeconds;
    } catch (const Error&) {
      return true;
    }
  });
  return shortage;
}

// Connects to a member, and says hello; tries again after a pause when nothing listens there, or
// the connection ends before its answer: the other end drops connections that are silent for long.
void Job::call(Calling& calling, uint64_t group) {
  if (Clock::now() < calling.again) return;
  const auto begin = Clock::now();
  Socket socket = connect_to(calling.address, calling.trouble);
  const auto end = Clock::now();
  // An attempt may take seconds, in which nothing else is done: as long a pause follows.
  calling.again = end + std::max<Clock::duration>(std::chrono::milliseconds(kStepMs), end - begin);
  if (!socket) return;
  calling.trouble.clear();
  calling.link = std::make_unique<Link>(std::move(socket), key_, /*accepted=*/false);
  calling.link->send(FrameKind::kHello, encode(Hello{group, place_.rank}));
}

// Returns the connection once the member has answered.
Socket Job::take_answer(Calling& calling) {
  if (!calling.link) return Socket();
  const bool open = calling.link->move();
  if (const auto frame = calling.link->take(); frame && frame->kind == FrameKind::kWelcome)
    return calling.link->release();
  if (!open) {
    calling.link.reset();
    calling.trouble = "it closed the connection";
  }
  return Socket();
}

std::vector<Socket> Job::connect(GroupState& group) {
  std::lock_guard lock(accept_mutex_);
  const Deadline deadline(comm_timeout());
  const size_t n = group.members.size();
  const auto me = static_cast<size_t>(
      std::find(group.members.begin(), group.members.end(), place_.rank) - group.members.begin());
  std::vector<Socket> sockets(n);
  std::vector<Calling> calling(me);  // each member calls those before it
  for (size_t r = 0; r < me; ++r)
    calling[r].address =
        address_from_text(kJobFrame, table_.addresses[static_cast<size_t>(group.members[r])]);
  reserve_descriptors(str("rank ", place_.rank, ": connections of a group of ", n, " ranks"),
                      static_cast<int64_t>(n) + kOwnDescriptors, kMostArriving);
  for (;;) {
    std::string missing;
    size_t gone = me;  // a member that has left; what it sent before is taken below
    for (size_t r = 0; r < n; ++r)
      if (r != me && !sockets[r] && presence(group.members[r]) == Presence::kLeft) gone = r;
    const int shortage = accept_members();
    // Connections that have not proved the token are dropped soon. Nothing else in this function
    // frees a descriptor of this process, but other processes may free theirs.
    if (shortage == EMFILE && arriving_.empty())
      fail_group(group, str("rank ", place_.rank, ": no descriptor is left for a connection of ",
                            "another rank: ", descriptor_shortage_text(shortage)));
    // poll leaves out negative numbers: new connections wait in the listener's queue.
    const bool accepts = !shortage && arriving_.size() < kMostArriving;
    std::vector<pollfd> polled = {{accepts ? listener_.get() : -1, POLLIN, 0}};
    const Deadline pass(kPassSeconds);
    for (size_t r = 0; r < n; ++r) {
      if (r == me || sockets[r]) continue;
      const int peer = group.members[r];
      if (r > me) {
        if (const auto found = accepted_.find({group.id, peer}); found != accepted_.end()) {
          sockets[r] = std::move(found->second);
          accepted_.erase(found);
          continue;
        }
        missing += str(missing.empty() ? "rank " : ", rank ", peer);
        continue;
      }
      Calling& c = calling[r];
      // Connections that exist are served often.
      if (!c.link && !pass.over()) call(c, group.id);
      if (sockets[r] = take_answer(c); sockets[r]) continue;
      if (c.link) polled.push_back({c.link->descriptor(), events_of(*c.link), 0});
      missing += str(missing.empty() ? "rank " : ", rank ", peer, " at ", address_text(c.address));
      if (!c.trouble.empty()) missing += str(": ", c.trouble);
    }
    if (missing.empty()) return sockets;
    if (group.failed()) fail(ErrorKind::kCommunicator, group.failure());
    if (gone != me && !sockets[gone])
      fail_group(group, str("rank ", group.members[gone], " has left the job"));
    if (deadline.over())
      fail_group(group, str("rank ", place_.rank, ": waited ", comm_timeout(),
                            " s (MXLITE_COMM_TIMEOUT) for a connection with ", missing,
                            shortage ? "; " + descriptor_shortage_text(shortage) : ""));
    for (const Arriving& arriving : arriving_)
      polled.push_back({arriving.link.descriptor(), events_of(arriving.link), 0});
    poll(polled.data(), polled.size(), kStepMs);
  }
}

}  // namespace mxlite::tcp
