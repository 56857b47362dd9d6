#include "cpp/kvstore/server/reactor.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cpp/core/profile_hooks.h"

namespace mxlite::server {
namespace {

constexpr int kTickMs = 20;
constexpr size_t kStaging = 64 << 10;
constexpr size_t kReadAtOnce = size_t{8} << 20;  // of one connection before others have a turn
constexpr size_t kMostStrangers = 256;
constexpr double kHelloSeconds = 5;
constexpr uint64_t kPreambleMagic = 0x3253502d65746c78;  // "xlte-PS2"
constexpr ConnectionId kWakeTag = ~ConnectionId{0}, kListenTag = kWakeTag - 1;

bool starts_connection(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kWelcome || type == FrameType::kRefused;
}

MakeFrameFilter make_filter = nullptr;  // set before threads start

std::string errno_text() { return std::strerror(errno); }

}  // namespace

Reactor::Connection::Connection(ConnectionId number, Fd socket)
    : id(number), fd(std::move(socket)), mine{kPreambleMagic, random_nonce()} {}

void set_frame_filter(MakeFrameFilter make) { make_filter = make; }

Reactor::Reactor(const SealKey& key)
    : key_(key),
      filter_(make_filter ? make_filter() : nullptr),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      staging_(kStaging) {
  MX_CHECK_KIND(epoll_ && wake_, ErrorKind::kCommunicator,
                "parameter server: no more files: ", errno_text());
  epoll_event event = {EPOLLIN, {.u64 = kWakeTag}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

Reactor::~Reactor() { stop(0); }

int Reactor::listen(const Address& address) {
  listeners_.push_back(listen_on(address));
  epoll_event event = {EPOLLIN, {.u64 = kListenTag}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listeners_.back().fd.get(), &event);
  return listeners_.back().port;
}

void Reactor::start(const char* thread_name) {
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  {
    std::lock_guard lock(mutex_);  // the thread looks at thread_id_
    thread_ = std::thread([this, thread_name] {
      { std::lock_guard wait(mutex_); }
      pthread_setname_np(pthread_self(), thread_name);
      loop();
    });
    thread_id_ = thread_.get_id();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Reactor::stop(double flush_seconds) noexcept {
  if (!thread_.joinable()) return;
  post([this, flush_seconds] {
    flush_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(flush_seconds));
    stopping_ = true;
  });
  thread_.join();
  posted_.clear();
  connections_.clear();
}

void Reactor::connect(ConnectionId id, const Address& address) {
  auto connection = std::make_shared<std::unique_ptr<Connection>>(
      std::make_unique<Connection>(id, begin_connect(address)));
  post([this, connection] { adopt(std::move(*connection), true); });
}

void Reactor::adopt(std::unique_ptr<Connection> connection, bool connecting) {
  Connection& c = *connection;
  c.connecting = connecting;
  c.accepted = !connecting;
  c.decoder.set_epoch(epoch_);
  epoll_event event = {connecting ? EPOLLOUT : EPOLLIN, {.u64 = c.id}};
  c.wants_write = connecting;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.fd.get(), &event);
  const ConnectionId id = c.id;
  connections_.emplace(id, std::move(connection));
  if (!connecting && write_preamble(c)) handlers_.opened(id);
}

void Reactor::send(ConnectionId id, Frame frame) {
  if (!on_thread()) {
    auto shared = std::make_shared<Frame>(std::move(frame));
    post([this, id, shared] { send(id, std::move(*shared)); });
    return;
  }
  Connection* c = find(id);
  if (!c) return;
  const int64_t order = -static_cast<int64_t>(frame.priority);
  c->waiting.emplace(std::pair{order, next_order_++}, std::move(frame));
  if (!c->connecting && !c->wants_write) write(*c);
}

void Reactor::close(ConnectionId id, const std::string& why) {
  post([this, id, why] { drop(id, why); });
}

void Reactor::post(std::function<void()> work) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    wake = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (!wake) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

Traffic Reactor::traffic() {
  std::lock_guard lock(mutex_);
  return traffic_;
}

void Reactor::trust(ConnectionId id) {
  Connection* c = find(id);
  if (!c || c->trusted) return;
  c->trusted = true;
  c->decoder.set_trusted();
  c->decoder.set_epoch(epoch_);
  if (c->accepted) --strangers_;
}

bool Reactor::quiet(ConnectionId id) {
  const Connection* c = find(id);
  return !c || (!c->writing && c->waiting.empty());
}

Reactor::Connection* Reactor::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

void Reactor::count_bad(BadFrame kind) {
  std::lock_guard lock(mutex_);
  ++traffic_.bad[static_cast<size_t>(kind)];
  ++traffic_.refused_connections;
}

void Reactor::loop() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int n = epoll_wait(epoll_.get(), events.data(), events.size(), kTickMs);
    for (int i = 0; i < n; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kWakeTag) {
        uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
      } else if (event.data.u64 == kListenTag) {
        accept_all();
      } else if (Connection* c = find(event.data.u64)) {
        const ConnectionId id = c->id;
        if (c->connecting) {
          const std::string error = connect_error(c->fd.get());
          if (!error.empty()) {
            drop(id, error);
            continue;
          }
          c->connecting = false;
          watch(*c, false);
          handlers_.opened(id);
        } else if (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
          read(*c);
        }
        c = find(id);
        if (c && (event.events & EPOLLOUT || !c->waiting.empty())) write(*c);
      }
    }
    run_posted();
    tick();
    if (!stopping_) continue;
    const bool waiting = std::any_of(connections_.begin(), connections_.end(), [](const auto& c) {
      return c.second->sealed && (c.second->writing || !c.second->waiting.empty());
    });
    if (!waiting || Clock::now() >= flush_until_) return;
  }
}

void Reactor::run_posted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& f : work) f();
}

void Reactor::accept_all() {
  for (const Listener& listener : listeners_) {
    while (true) {
      Fd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) break;
      if (strangers_ >= kMostStrangers) continue;
      set_options(fd.get());
      ++strangers_;
      adopt(std::make_unique<Connection>(next_id_++, std::move(fd)), false);
    }
  }
}

void Reactor::watch(Connection& c, bool write) {
  c.wants_write = write;
  epoll_event event = {EPOLLIN | (write ? EPOLLOUT : 0u), {.u64 = c.id}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, c.fd.get(), &event);
}

void Reactor::read(Connection& first) {
  const ProfileScope profile("receive", ProfileKind::kComm);
  const ConnectionId id = first.id;
  size_t total = 0;
  while (total < kReadAtOnce) {
    Connection* c = find(id);  // a handler may have closed it
    if (!c) return;
    const std::span<std::byte> direct = c->decoder.direct();
    const std::span<std::byte> space = direct.empty() ? std::span(staging_) : direct;
    const ssize_t n = ::recv(c->fd.get(), space.data(), space.size(), 0);
    if (n == 0) return drop(id, "the connection was closed");
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      return drop(id, errno_text());
    }
    total += static_cast<size_t>(n);
    {
      std::lock_guard lock(mutex_);
      traffic_.received_bytes += static_cast<size_t>(n);
    }
    std::span<const std::byte> bytes(staging_.data(), direct.empty() ? static_cast<size_t>(n) : 0);
    try {
      if (!direct.empty()) c->decoder.filled(static_cast<size_t>(n));
      while (c) {
        if (c->decoder.complete()) {
          deliver(id, c->decoder.take());
          c = find(id);
          continue;
        }
        if (bytes.empty()) break;
        bytes = bytes.subspan(c->sealed ? c->decoder.feed(bytes) : read_preamble(*c, bytes));
      }
    } catch (const FrameError& e) {
      count_bad(e.kind);
      return drop(id, e.what());
    } catch (const Error& e) {
      count_bad(BadFrame::kContent);
      return drop(id, e.what());
    }
  }
}

size_t Reactor::read_preamble(Connection& c, std::span<const std::byte> bytes) {
  const size_t n = std::min(sizeof c.theirs - c.theirs_have, bytes.size());
  std::memcpy(reinterpret_cast<std::byte*>(&c.theirs) + c.theirs_have, bytes.data(), n);
  c.theirs_have += n;
  if (c.theirs_have >= sizeof c.theirs.magic && c.theirs.magic != kPreambleMagic)
    throw FrameError(BadFrame::kMagic, "parameter server: bytes that are no frame");
  if (c.theirs_have < sizeof c.theirs) return n;
  const ConnectionKeys keys = c.accepted ? connection_keys(key_, c.theirs.nonce, c.mine.nonce)
                                         : connection_keys(key_, c.mine.nonce, c.theirs.nonce);
  c.key = c.accepted ? keys.accepting : keys.connecting;
  c.decoder.set_key(c.accepted ? keys.connecting : keys.accepting);
  c.sealed = true;
  return n;
}

bool Reactor::write_preamble(Connection& c) {
  while (c.mine_sent < sizeof c.mine) {
    const ssize_t n = ::send(c.fd.get(), reinterpret_cast<const std::byte*>(&c.mine) + c.mine_sent,
                             sizeof c.mine - c.mine_sent, MSG_NOSIGNAL);
    if (n >= 0) {
      c.mine_sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!c.wants_write) watch(c, true);
      return true;
    } else if (errno != EINTR) {
      drop(c.id, errno_text());
      return false;
    }
  }
  return true;
}

void Reactor::deliver(ConnectionId id, Frame frame) {
  {
    std::lock_guard lock(mutex_);
    ++traffic_.received_frames;
  }
  if (!filter_ || starts_connection(frame.type)) return hand_over(id, std::move(frame));
  filter_->arrived(id, std::move(frame),
                   [this](ConnectionId to, Frame passed) { pass(to, std::move(passed)); });
}

void Reactor::pass(ConnectionId id, Frame frame) {
  try {
    hand_over(id, std::move(frame));
  } catch (const FrameError& e) {
    count_bad(e.kind);
    drop(id, e.what());
  } catch (const Error& e) {
    count_bad(BadFrame::kContent);
    drop(id, e.what());
  }
}

void Reactor::hand_over(ConnectionId id, Frame frame) {
  Connection* c = find(id);
  if (!c) return;
  if (!c->trusted && !starts_connection(frame.type))
    throw FrameError(BadFrame::kOrder, "parameter server: a frame before hello");
  handlers_.frame(id, std::move(frame));
}

bool Reactor::write(Connection& c) {
  const ConnectionId id = c.id;
  if (!write_preamble(c)) return false;
  while (c.sealed && (c.writing || !c.waiting.empty())) {
    const ProfileScope profile("send", ProfileKind::kComm);
    if (!c.writing) {
      c.current = std::move(c.waiting.begin()->second);
      c.waiting.erase(c.waiting.begin());
      c.header = make_header(c.current, {c.key, c.sent++, epoch_});
      c.written = 0;
      c.writing = true;
    }
    const std::array<std::span<const std::byte>, 3> parts = {
        std::as_bytes(std::span(&c.header, 1)), std::span<const std::byte>(c.current.body),
        std::span(c.current.data.data, c.current.data.bytes)};
    std::array<iovec, 3> vectors;
    size_t count = 0, skip = c.written, total = 0;
    for (const auto& part : parts) {
      total += part.size();
      const size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      if (skipped < part.size())
        vectors[count++] = {const_cast<std::byte*>(part.data() + skipped), part.size() - skipped};
    }
    msghdr message = {};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    const ssize_t n = ::sendmsg(c.fd.get(), &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!c.wants_write) watch(c, true);
        return true;
      }
      drop(id, errno_text());
      return false;
    }
    c.written += static_cast<size_t>(n);
    if (c.written < total) continue;
    c.writing = false;
    c.current = {};
    std::lock_guard lock(mutex_);
    ++traffic_.sent_frames;
    traffic_.sent_bytes += total;
  }
  if (c.wants_write && c.mine_sent == sizeof c.mine) watch(c, false);
  return true;
}

void Reactor::drop(ConnectionId id, const std::string& why) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::unique_ptr<Connection> gone = std::move(found->second);
  connections_.erase(found);
  if (gone->accepted && !gone->trusted) --strangers_;
  handlers_.closed(id, why);
}

void Reactor::tick() {
  const auto now = Clock::now();
  if (now - ticked_ < std::chrono::milliseconds(kTickMs)) return;
  ticked_ = now;
  if (filter_)
    filter_->tick([this](ConnectionId to, Frame passed) { pass(to, std::move(passed)); });
  if (strangers_ > 0) {
    std::vector<ConnectionId> silent;
    for (const auto& [id, c] : connections_)
      if (c->accepted && !c->trusted &&
          now - c->since > std::chrono::duration<double>(kHelloSeconds))
        silent.push_back(id);
    for (const ConnectionId id : silent) {
      count_bad(BadFrame::kOrder);
      drop(id, "no hello");
    }
  }
  handlers_.tick();
}

}  // namespace mxlite::server
