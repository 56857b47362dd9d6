#include "cpp/kvstore/comm/tcp/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::tcp {
namespace {

constexpr int kStepMs = 100;            // between looks at the time
constexpr double kRegisterSeconds = 5;  // within which a connection must prove the token
constexpr size_t kMostStrangers = 256;
constexpr double kPatience = 0.5;                       // seconds, while others wait
constexpr size_t kMostWaitingBytes = size_t{16} << 20;  // a process that reads nothing

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

}  // namespace

Rendezvous::Rendezvous(int processes, const TcpAddress& address, const std::string& token)
    : key_(key_of_secret(token)) {
  MX_CHECK(processes > 0 && processes <= kMostProcesses, "a job of ", processes,
           " processes given, from 1 to ", kMostProcesses, " expected");
  MX_CHECK(!token.empty(), "a job over several hosts needs a token (MXLITE_JOB_TOKEN)");
  members_.resize(static_cast<size_t>(processes));
  reserve_descriptors(str(kJobFrame, ": the launcher of ", processes, " processes"),
                      processes + kOwnDescriptors, kMostStrangers);
  listener_ = listen_at(address);
  set_nonblocking(listener_);
  int ends[2];
  MX_CHECK_KIND(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, ErrorKind::kCommunicator, kJobFrame,
                ": pipe: ", std::strerror(errno));
  wake_reader_ = Socket(ends[0]);
  wake_writer_ = Socket(ends[1]);
  sigset_t all, before;  // signals go to the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "mxlite-meeting");
}

Rendezvous::~Rendezvous() {
  stopping_ = true;
  const char byte = 0;
  static_cast<void>(!write(wake_writer_.get(), &byte, 1));
  thread_.join();
}

void Rendezvous::loop() noexcept {
  while (!stopping_) {
    try {
      step();
    } catch (const std::exception& e) {
      // Every connection ends, and with it the processes' wait for this thread.
      std::fprintf(stderr, "mxlite: %s: %s\n", kJobFrame, e.what());
      return connections_.clear();
    }
  }
}

void Rendezvous::step() {
  // poll leaves out negative numbers: new connections wait in the listener's queue.
  const bool accepts = has_room() && Clock::now() >= accept_again_;
  std::vector<pollfd> polled = {{accepts ? listener_.get() : -1, POLLIN, 0},
                                {wake_reader_.get(), POLLIN, 0}};
  for (const Connection& c : connections_)
    polled.push_back({c.link.descriptor(),
                      static_cast<short>(POLLIN | (c.link.wants_write() ? POLLOUT : 0)), 0});
  if (poll(polled.data(), polled.size(), kStepMs) < 0) return;  // interrupted
  // Connections that frames of others are queued for are served as well: sending does not wait.
  std::vector<std::pair<int, std::string>> lost;
  for (auto c = connections_.begin(); c != connections_.end();) {
    if (serve(*c)) {
      ++c;
      continue;
    }
    if (c->rank >= 0 && member(c->rank).status == Status::kPresent)
      lost.emplace_back(c->rank, "its connection was closed");
    c = connections_.erase(c);
  }
  for (const auto& [rank, why] : lost) lose(rank, why);
  if (polled[0].revents) accept();
  check_times();
}

size_t Rendezvous::strangers() const {
  return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(),
                                           [](const Connection& c) { return c.rank < 0; }));
}

std::list<Rendezvous::Connection>::iterator Rendezvous::oldest_stranger() {
  return std::find_if(connections_.begin(), connections_.end(),
                      [](const Connection& c) { return c.rank < 0; });
}

// At the limit a stranger that has been silent for a while makes room.
bool Rendezvous::has_room() {
  return strangers() < kMostStrangers || seconds_since(oldest_stranger()->since) > kPatience;
}

void Rendezvous::accept() {
  while (has_room()) {
    const int before = std::exchange(shortage_, 0);
    Socket socket = accept_from(listener_, shortage_);
    if (shortage_) {
      accept_again_ = Clock::now() + std::chrono::milliseconds(kStepMs);
      if (before != shortage_)
        std::fprintf(stderr, "mxlite: %s: %s\n", kJobFrame, shortage_text().c_str());
    }
    if (!socket) return;
    if (strangers() >= kMostStrangers) connections_.erase(oldest_stranger());
    connections_.emplace_back(std::move(socket), key_);
  }
}

bool Rendezvous::serve(Connection& c) {
  try {
    bool open = c.link.move();
    while (const auto frame = c.link.take()) {
      take_frame(c, *frame);
      open = c.link.move() && open;
    }
    if (c.closing && c.link.sent_all()) return false;
    return open && c.link.waiting_bytes() <= kMostWaitingBytes;
  } catch (const Error&) {
    return false;  // bytes of a program that is no process of the job
  }
}

void Rendezvous::take_frame(Connection& c, const WireFrame& frame) {
  if (c.closing) return;
  if (c.rank < 0) {
    MX_CHECK_KIND(frame.kind == FrameKind::kRegister, ErrorKind::kCommunicator, kJobFrame,
                  ": a frame before the registration");
    return take_registration(c, decode<Registration>(frame.body));
  }
  member(c.rank).heard = Clock::now();
  switch (frame.kind) {
    case FrameKind::kHeartbeat:
      return;
    case FrameKind::kLeave:
      if (!started_) return refuse_all(str("rank ", c.rank, " left before all had joined"));
      member(c.rank).status = Status::kLeft;
      c.closing = true;
      return send_all(FrameKind::kLeft, encode(Departure{c.rank, where(c.rank)}));
    case FrameKind::kGroupFailure:
      return send_all(FrameKind::kGroupFailure, encode(decode<GroupFailure>(frame.body)));
    default:
      fail(ErrorKind::kCommunicator, kJobFrame, ": a frame that a process may not send");
  }
}

void Rendezvous::take_registration(Connection& c, Registration r) {
  const int size = static_cast<int>(members_.size());
  if (r.size != size || r.rank < 0 || r.rank >= size)
    return refuse(
        c, str("rank ", r.rank, " of ", r.size, " given, this is a job of ", size, " processes"));
  if (!refusal_.empty()) return refuse(c, refusal_);
  Member& m = member(r.rank);
  if (m.status != Status::kMissing)
    return refuse(c, str("rank ", r.rank, " (host ", r.host, ", process ", r.process,
                         ") has already joined: ", where(r.rank)));
  c.rank = r.rank;
  m = {Status::kPresent, std::move(r), Clock::now(), Clock::now()};
  if (std::any_of(members_.begin(), members_.end(),
                  [](const Member& other) { return other.status != Status::kPresent; }))
    return;
  started_ = true;
  Table table;
  for (const Member& other : members_) {
    table.hosts.push_back(other.registration.host);
    table.addresses.push_back(other.registration.address);
  }
  send_all(FrameKind::kTable, encode(table));
}

void Rendezvous::refuse(Connection& c, const std::string& why) {
  c.link.send(FrameKind::kRefused, encode_text(why));
  c.closing = true;
}

void Rendezvous::refuse_all(const std::string& why) {
  refusal_ = why;
  for (Connection& c : connections_) {
    if (c.rank < 0) continue;
    member(c.rank).status = Status::kLost;
    refuse(c, why);
  }
}

void Rendezvous::lose(int rank, const std::string& why) {
  member(rank).status = Status::kLost;
  const std::string text = str("rank ", rank, " is lost (", where(rank), "): ", why);
  if (started_)
    send_all(FrameKind::kLost, encode(Departure{rank, text}));
  else
    refuse_all(text);
}

void Rendezvous::check_times() {
  for (Connection& c : connections_) {
    if (c.closing) continue;
    if (c.rank < 0) {
      c.closing = seconds_since(c.since) > kRegisterSeconds;
      continue;
    }
    const Member& m = member(c.rank);
    if (!started_ && seconds_since(m.since) > m.registration.timeout)
      return refuse_all(str("rank ", c.rank, " has waited ", m.registration.timeout,
                            " s (MXLITE_COMM_TIMEOUT): ", missing(),
                            shortage_ ? "; " + shortage_text() : ""));
    if (m.status == Status::kPresent && seconds_since(m.heard) > m.registration.silence) {
      lose(c.rank, str("no sign of life for ", m.registration.silence, " s"));
      c.closing = true;  // The message comes first, because the rank may run again later.
      return;
    }
  }
}

void Rendezvous::send_all(FrameKind kind, const Body& body) {
  for (Connection& c : connections_)
    if (c.rank >= 0 && !c.closing) c.link.send(kind, body);
}

std::string Rendezvous::missing() const {
  std::string text;
  int count = 0;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].status == Status::kPresent) continue;
    text += str(count++ ? ", " : "", r);
  }
  return str(count == 1 ? "rank " : "ranks ", text, count == 1 ? " has" : " have",
             " not joined the job of ", members_.size(), " processes");
}

std::string Rendezvous::shortage_text() const {
  return str("connections wait, because the launcher has no descriptor for them: ",
             descriptor_shortage_text(shortage_));
}

std::string Rendezvous::where(int rank) const {
  const Registration& r = members_[static_cast<size_t>(rank)].registration;
  return str("host ", r.host, ", process ", r.process);
}

}  // namespace mxlite::tcp
