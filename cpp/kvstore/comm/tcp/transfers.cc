#include "cpp/kvstore/comm/tcp/transfers.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace mxlite::tcp {
namespace {

constexpr int kAttempts = 20;  // attempts without progress before the thread sleeps
constexpr int kSleepMs = 50;

}  // namespace

void Transfers::send(int peer, const void* data, size_t bytes) {
  add(peer, true, const_cast<std::byte*>(static_cast<const std::byte*>(data)), bytes);
}

void Transfers::receive(int peer, void* data, size_t bytes) {
  add(peer, false, static_cast<std::byte*>(data), bytes);
}

void Transfers::add(int peer, bool outgoing, std::byte* data, size_t bytes) {
  Message m{peer, outgoing, data, {}, bytes};
  if (outgoing) m.header = {call_.signature, call_.number, bytes};
  messages_.push_back(m);
}

bool Transfers::advance(Message& m) {
  const Socket& socket = sockets_[static_cast<size_t>(m.peer)];
  // Reads only up to the end of the message, because the sender's next message may follow.
  iovec parts[2];
  size_t count = 0;
  if (m.moved < sizeof m.header)
    parts[count++] = {reinterpret_cast<std::byte*>(&m.header) + m.moved, sizeof m.header - m.moved};
  // Receives data only after the header was checked, because the message may be shorter than
  // expected.
  if (m.bytes > 0 && (m.outgoing || count == 0)) {
    const size_t begin = m.moved - std::min(m.moved, sizeof m.header);
    parts[count++] = {m.data + begin, m.bytes - begin};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const ssize_t n =
      m.outgoing ? sendmsg(socket.get(), &message, flags) : recvmsg(socket.get(), &message, flags);
  if (n <= 0) {
    const bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (!later) events_.closed(m.peer);
    return false;
  }
  const size_t before = m.moved;
  m.moved += static_cast<size_t>(n);
  if (!m.outgoing && before < sizeof m.header && m.moved == sizeof m.header &&
      (m.header.signature != call_.signature || m.header.number != call_.number ||
       m.header.bytes != m.bytes))
    events_.unexpected(m.peer, m.header);
  return true;
}

void Transfers::run() {
  // busy[2 * peer + outgoing] is true if an earlier message in this direction is in flight.
  std::vector<bool> busy(2 * sockets_.size());
  std::vector<pollfd> polled;
  for (int idle = 0;;) {
    bool moved = false;
    busy.assign(busy.size(), false);
    polled.clear();
    for (Message& m : messages_) {
      if (m.done()) continue;
      const size_t direction = 2 * static_cast<size_t>(m.peer) + (m.outgoing ? 1 : 0);
      if (busy[direction]) continue;
      while (!m.done() && advance(m)) moved = true;
      if (m.done()) continue;
      busy[direction] = true;
      polled.push_back({sockets_[static_cast<size_t>(m.peer)].get(),
                        static_cast<short>(m.outgoing ? POLLOUT : POLLIN), 0});
    }
    if (polled.empty()) break;
    if (moved) events_.moved();
    idle = moved ? 0 : idle + 1;
    if (idle < kAttempts) {
      if (idle > 0) sched_yield();
      continue;
    }
    std::vector<int> peers;
    for (const Message& m : messages_)
      if (!m.done() && !std::count(peers.begin(), peers.end(), m.peer)) peers.push_back(m.peer);
    events_.waiting(peers);
    poll(polled.data(), polled.size(), kSleepMs);
  }
  messages_.clear();
}

}  // namespace mxlite::tcp
