#include "cpp/kvstore/comm/link/reactor.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "cpp/core/profile_hooks.h"
#include "cpp/kvstore/comm/descriptors.h"
#include "cpp/kvstore/comm/link/asio.h"

namespace mxlite {
namespace {

constexpr auto kTick = std::chrono::milliseconds(20);
constexpr size_t kStaging = 64 << 10;
constexpr size_t kReadAtOnce = size_t{8} << 20;  // bytes to read from one connection per turn
constexpr double kHelloSeconds = 5;              // limit for receiving hello and for connecting
constexpr double kPatienceSeconds = 0.5;         // minimum silence before a stranger may be dropped
                                                 // to admit another one
constexpr uint64_t kPreambleMagic = 0x33424f4a2d6c786d;  // "mxl-JOB3"

bool starts_connection(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kWelcome || type == FrameType::kRefused;
}

// The first bytes that each end of a connection sends. They determine the keys of both directions.
struct Preamble {
  uint64_t magic = 0;
  Nonce nonce = {};
};

bool would_block(const std::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace

struct Reactor::Network {
  asio::io_context context{1};
  asio::steady_timer ticker{context};
  std::vector<AsioTcp::acceptor> listeners;
  std::vector<ClosedInForks> closed_in_forks;  // the listeners
  std::vector<size_t> paused;  // listeners that could not accept; they retry at the next tick
};

struct Reactor::Connection {
  Connection(ConnectionId number, AsioTcp::socket s)
      : id(number), socket(std::move(s)), mine{kPreambleMagic, random_nonce()} {}

  const ConnectionId id;
  AsioTcp::socket socket;
  Socket owned;  // owns and closes the descriptor of `socket`
  Preamble mine, theirs;
  size_t mine_sent = 0, theirs_have = 0;
  bool sealed = false;  // true once both keys are known
  SealKey key;          // key of frames that this end sends
  uint64_t sent = 0;    // number of frames sent
  FrameDecoder decoder;
  bool connecting = false, wants_write = false, closing = false;
  bool accepted = false, is_stranger = false;
  Clock::time_point since = Clock::now();
  // Frames that wait. They are sorted by priority, the largest first, and then by number.
  std::map<std::pair<int64_t, uint64_t>, Frame> waiting;
  Frame current;
  FrameHeader header;
  size_t written = 0;  // bytes of header, body and data of `current` that have been written
  bool writing = false;
};

Reactor::Reactor(const SealKey& key, std::string process)
    : key_(key),
      process_(std::move(process)),
      owner_(getpid()),
      filter_(mxlite_make_frame_filter ? mxlite_make_frame_filter() : nullptr),
      network_(std::make_unique<Network>()),
      staging_(kStaging) {}

Reactor::~Reactor() { stop(0); }

Address Reactor::listen(const Address& address) {
  network_->listeners.push_back(listen_on(network_->context, address));
  network_->closed_in_forks.emplace_back(network_->listeners.back().native_handle());
  const auto end = network_->listeners.back().local_endpoint();
  return {end.address().to_string(), end.port()};
}

void Reactor::start(const char* thread_name) {
  sigset_t all, before;  // other threads of the program handle signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  {
    std::lock_guard lock(mutex_);  // thread_main reads thread_id_ under the mutex
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
  if (is_in_fork()) {  // a fork does not have the thread and must not affect the parent's
                       // connections
    if (thread_.joinable()) thread_.detach();
    new auto(std::move(connections_));
    static_cast<void>(network_.release());
    return;
  }
  if (!thread_.joinable()) return;
  post([this, flush_seconds] {
    flush_until_ = Clock::now() + duration_of(flush_seconds);
    stopping_ = true;
    stop_when_sent();
  });
  thread_.join();
  while (!connections_.empty()) remove(connections_.begin()->first);
}

bool Reactor::is_in_fork() const { return getpid() != owner_; }

void Reactor::loop() {
  for (size_t i = 0; i < network_->listeners.size(); ++i) accept(i);
  await_tick();  // keeps a timer pending, so that run does not return for lack of work
  network_->context.run();
}

void Reactor::stop_when_sent() {
  if (!stopping_) return;
  const bool waiting = std::any_of(connections_.begin(), connections_.end(), [](const auto& c) {
    return c.second->sealed && (c.second->writing || !c.second->waiting.empty());
  });
  if (!waiting || Clock::now() >= flush_until_) network_->context.stop();
}

void Reactor::post(std::function<void()> work) {
  if (!is_in_fork()) asio::post(network_->context, std::move(work));
}

void Reactor::connect(ConnectionId id, const Address& address) {
  post([this, id, addresses = resolve(network_->context, address)] {
    const auto c = std::make_shared<Connection>(id, AsioTcp::socket(network_->context));
    c->connecting = true;
    connections_.emplace(id, c);
    asio::async_connect(c->socket, addresses, [this, c](const std::error_code& error, const auto&) {
      if (!find(c->id)) return;  // the connection was closed in the meantime
      if (error)
        return drop(c->id, is_descriptor_shortage(error.value())
                               ? descriptor_shortage_text(error.value())
                               : error.message());
      c->connecting = false;
      begin(*c);
    });
  });
}

// Returns whether another connection without hello may be accepted. If too many such connections
// are open, drops the oldest connection, provided that it has been silent long enough.
bool Reactor::has_room() {
  if (strangers_ < kMostStrangers) return true;
  const Connection* oldest = nullptr;
  for (const auto& [id, c] : connections_)
    if (c->is_stranger && (!oldest || c->since < oldest->since)) oldest = c.get();
  if (seconds_since(oldest->since) < kPatienceSeconds) return false;
  drop(oldest->id, "no hello");
  return true;
}

void Reactor::accept(size_t listener) {
  if (!has_room()) return network_->paused.push_back(listener);
  network_->listeners[listener].async_accept(
      [this, listener](const std::error_code& error, AsioTcp::socket socket) {
        note_accepted(error);
        if (error) return network_->paused.push_back(listener);
        ++strangers_;
        const auto c = std::make_shared<Connection>(next_id_++, std::move(socket));
        c->accepted = c->is_stranger = true;
        connections_.emplace(c->id, c);
        begin(*c);
        accept(listener);
      });
}

// Prints a message if no descriptors are left. The listener retries at every tick.
void Reactor::note_accepted(const std::error_code& error) {
  const int before = shortage_;
  shortage_ = is_descriptor_shortage(error.value()) ? error.value() : 0;
  if (shortage_ && before != shortage_)
    std::fprintf(stderr, "mxlite: %s\n", shortage_text().c_str());
}

std::string Reactor::shortage_text() const {
  if (!shortage_) return {};
  return str("connections wait, because ", process_,
             " has no descriptor for them: ", descriptor_shortage_text(shortage_));
}

void Reactor::begin(Connection& c) {
  const ConnectionId id = c.id;
  std::error_code error;  // if the peer is gone, reading reports the error
  c.owned = Socket(c.socket.native_handle());
  close_on_exec(c.owned.get());
  c.socket.set_option(AsioTcp::no_delay(true), error);
  c.socket.non_blocking(true, error);
  c.decoder.set_epoch(epoch_);
  await_read(c);
  if (!write_preamble(c)) return;
  handlers_.opened(id);
  if (Connection* open = find(id); open && !open->waiting.empty()) write(*open);
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

Traffic Reactor::traffic() {
  std::lock_guard lock(mutex_);
  return traffic_;
}

void Reactor::accept_hello(ConnectionId id) {
  Connection* c = find(id);
  if (c && std::exchange(c->is_stranger, false)) --strangers_;
}

void Reactor::trust(ConnectionId id) {
  accept_hello(id);
  Connection* c = find(id);
  if (!c) return;
  c->decoder.set_trusted();
  c->decoder.set_epoch(epoch_);
}

void Reactor::finish(ConnectionId id) {
  Connection* c = find(id);
  if (!c) return;
  c->closing = true;
  if (quiet(id)) drop(id, "this process has ended the connection");
}

Socket Reactor::release(ConnectionId id) {
  if (!find(id) || !quiet(id)) return Socket();
  return std::move(remove(id)->owned);
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

void Reactor::await_read(Connection& c) {
  c.socket.async_wait(AsioTcp::socket::wait_read, [this, id = c.id](const std::error_code&) {
    if (Connection* c = find(id)) read(*c);
    if (Connection* c = find(id); c && !c->waiting.empty()) write(*c);
    if (Connection* c = find(id)) await_read(*c);
  });
}

void Reactor::await_write(Connection& c) {
  if (c.wants_write) return;
  c.wants_write = true;
  c.socket.async_wait(AsioTcp::socket::wait_write, [this, id = c.id](const std::error_code&) {
    Connection* c = find(id);
    if (!c) return;
    c->wants_write = false;
    write(*c);
  });
}

void Reactor::read(Connection& first) {
  const ProfileScope profile("receive", ProfileKind::kComm);
  const ConnectionId id = first.id;
  size_t total = 0;
  while (total < kReadAtOnce) {
    Connection* c = find(id);  // a handler may have closed the connection
    if (!c) return;
    const std::span<std::byte> direct = c->decoder.direct();
    std::span<std::byte> space = direct.empty() ? std::span(staging_) : direct;
    if (!c->decoder.is_trusted())
      space = space.first(std::min(
          space.size(), c->sealed ? c->decoder.wanted() : sizeof c->theirs - c->theirs_have));
    std::error_code error;
    const size_t n = c->socket.read_some(asio::buffer(space.data(), space.size()), error);
    if (error) {
      if (error == asio::error::interrupted) continue;
      if (would_block(error)) return;
      return drop(id, error == asio::error::eof ? "the connection was closed" : error.message());
    }
    total += n;
    {
      std::lock_guard lock(mutex_);
      traffic_.received_bytes += n;
    }
    std::span<const std::byte> bytes(staging_.data(), direct.empty() ? n : 0);
    try {
      if (!direct.empty()) c->decoder.filled(n);
      while (c) {
        if (c->decoder.complete()) {
          deliver(id, c->decoder.take());
          c = find(id);
          continue;
        }
        if (bytes.empty()) break;
        bytes = bytes.subspan(c->sealed ? c->decoder.feed(bytes) : read_preamble(*c, bytes));
      }
    } catch (const Error& e) {
      return refuse(id, e);
    }
  }
}

void Reactor::refuse(ConnectionId id, const Error& error) {
  const auto* invalid = dynamic_cast<const FrameError*>(&error);
  count_bad(invalid ? invalid->kind : BadFrame::kContent);
  drop(id, error.what(), /*is_invalid=*/true);
}

size_t Reactor::read_preamble(Connection& c, std::span<const std::byte> bytes) {
  const size_t n = std::min(sizeof c.theirs - c.theirs_have, bytes.size());
  std::memcpy(reinterpret_cast<std::byte*>(&c.theirs) + c.theirs_have, bytes.data(), n);
  c.theirs_have += n;
  if (c.theirs_have >= sizeof c.theirs.magic && c.theirs.magic != kPreambleMagic)
    throw FrameError(BadFrame::kMagic, "connection of a job: it must begin with the magic number");
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
    const auto all = asio::buffer(&c.mine, sizeof c.mine);
    std::error_code error;
    c.mine_sent += c.socket.write_some(all + c.mine_sent, error);
    if (would_block(error)) {
      await_write(c);
      return true;
    }
    if (error && error != asio::error::interrupted) {
      drop(c.id, error.message());
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
  } catch (const Error& e) {
    refuse(id, e);
  }
}

void Reactor::hand_over(ConnectionId id, Frame frame) {
  Connection* c = find(id);
  if (!c || c->closing) return;
  if (!c->decoder.is_trusted() && !starts_connection(frame.type))
    throw FrameError(BadFrame::kOrder, "connection of a job: the first frame must be a hello");
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
    std::array<asio::const_buffer, 3> parts = {
        asio::buffer(&c.header, sizeof c.header), asio::buffer(c.current.body),
        asio::buffer(c.current.data.data, c.current.data.bytes)};
    const size_t total = asio::buffer_size(parts);
    size_t skip = c.written;
    for (asio::const_buffer& part : parts) {
      const size_t skipped = std::min(skip, part.size());
      part += skipped;
      skip -= skipped;
    }
    std::error_code error;
    c.written += c.socket.write_some(parts, error);
    if (error) {
      if (error == asio::error::interrupted) continue;
      if (would_block(error)) {
        await_write(c);
        return true;
      }
      drop(id, error.message());
      return false;
    }
    if (c.written < total) continue;
    c.writing = false;
    c.current = {};
    std::lock_guard lock(mutex_);
    ++traffic_.sent_frames;
    traffic_.sent_bytes += total;
  }
  stop_when_sent();
  if (!c.closing || !quiet(id)) return true;
  drop(id, "this process has ended the connection");
  return false;
}

// The returned object keeps the descriptor open as long as the object exists.
std::shared_ptr<Reactor::Connection> Reactor::remove(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return nullptr;
  const std::shared_ptr<Connection> gone = std::move(found->second);
  connections_.erase(found);
  std::error_code ignored;
  if (gone->owned)
    gone->socket.release(ignored);
  else
    gone->socket.close(ignored);
  if (gone->is_stranger) --strangers_;
  return gone;
}

void Reactor::drop(ConnectionId id, const std::string& why, bool is_invalid) {
  if (remove(id)) handlers_.closed(id, why, is_invalid);
}

void Reactor::await_tick() {
  network_->ticker.expires_after(kTick);
  network_->ticker.async_wait([this](const std::error_code&) {
    tick();
    await_tick();
  });
}

void Reactor::tick() {
  if (filter_)
    filter_->tick([this](ConnectionId to, Frame passed) { pass(to, std::move(passed)); });
  std::vector<ConnectionId> silent, unanswered;
  for (const auto& [id, c] : connections_)
    if ((c->is_stranger || c->connecting) && seconds_since(c->since) > kHelloSeconds)
      (c->connecting ? unanswered : silent).push_back(id);
  for (const ConnectionId id : unanswered) drop(id, "Connection timed out");
  for (const ConnectionId id : silent) {
    count_bad(BadFrame::kOrder);
    drop(id, "no hello");
  }
  handlers_.tick();
  std::vector<size_t> paused;
  paused.swap(network_->paused);
  for (const size_t listener : paused) accept(listener);
  stop_when_sent();
}

int Reactor::shortage() const { return network_->paused.empty() || strangers_ > 0 ? 0 : shortage_; }

}  // namespace mxlite
