#include "cpp/kvstore/comm/tcp_broadcast.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"

namespace mxlite {
namespace {

constexpr uint32_t kGreeting = 0x4d584c54;  // detects connections from other programs
constexpr int kPollMs = 100;

// First message of a process.
struct Hello {
  uint32_t greeting = kGreeting;
  int32_t process = 0, processes = 0;
  uint64_t bytes = 0;
};

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string text_of(const TcpAddress& a) { return str(a.host, ':', a.port); }

// Calls fn(candidate) until it returns a socket.
template <class Fn>
Socket for_candidates(const TcpAddress& address, bool passive, Fn&& fn) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  const int status =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  MX_CHECK_KIND(status == 0, ErrorKind::kCommunicator, "address ", text_of(address), ": ",
                gai_strerror(status));
  Socket result;
  for (const addrinfo* a = list; a && !result; a = a->ai_next) {
    Socket s(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (s && fn(s.get(), *a)) result = std::move(s);
  }
  freeaddrinfo(list);
  return result;
}

Socket listen_at(const TcpAddress& address) {
  Socket s = for_candidates(address, true, [](int fd, const addrinfo& a) {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(fd, a.ai_addr, a.ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
  });
  MX_CHECK_KIND(s, ErrorKind::kCommunicator, "cannot listen at ", text_of(address), ": ",
                std::strerror(errno));
  return s;
}

bool wait_for(int fd, short what, const Deadline& deadline) {
  while (!deadline.over()) {
    pollfd p{fd, what, 0};
    if (poll(&p, 1, kPollMs) > 0) return true;
  }
  return false;
}

// Receives all bytes before the deadline; returns false if the peer has closed.
bool send_all(int fd, const void* data, size_t bytes, const Deadline& deadline) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!wait_for(fd, POLLOUT, deadline)) return false;
    const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) {
      at += n;
      bytes -= static_cast<size_t>(n);
    }
  }
  return true;
}
bool receive_all(int fd, void* data, size_t bytes, const Deadline& deadline) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!wait_for(fd, POLLIN, deadline)) return false;
    const ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) {
      at += n;
      bytes -= static_cast<size_t>(n);
    }
  }
  return true;
}

void serve(const TcpAddress& address, int processes, const void* data, size_t bytes) {
  const Deadline deadline(comm_timeout());
  const Socket listener = listen_at(address);
  std::vector<uint8_t> served(static_cast<size_t>(processes));
  served[0] = 1;
  for (int left = processes - 1; left > 0;) {
    if (!wait_for(listener.get(), POLLIN, deadline)) {
      std::string missing;
      for (int p = 1; p < processes; ++p)
        if (!served[static_cast<size_t>(p)]) missing += str(missing.empty() ? "" : ", ", p);
      fail(ErrorKind::kCommunicator, "processes ", missing, " of ", processes,
           " have not connected to ", text_of(address), " within ", comm_timeout(), " s");
    }
    const Socket peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    if (!peer || !receive_all(peer.get(), &hello, sizeof hello, deadline) ||
        hello.greeting != kGreeting)
      continue;  // not a process of the job
    MX_CHECK_KIND(hello.processes == processes && hello.bytes == bytes && hello.process > 0 &&
                      hello.process < processes,
                  ErrorKind::kCommunicator, "process ", hello.process, " of ", hello.processes,
                  " came to ", text_of(address), ", this is a job of ", processes, " processes");
    if (!send_all(peer.get(), data, bytes, deadline)) continue;  // it connects again
    uint8_t& seen = served[static_cast<size_t>(hello.process)];
    left -= !seen;
    seen = 1;
  }
}

void fetch(const TcpAddress& address, int process, int processes, void* data, size_t bytes) {
  const Deadline deadline(comm_timeout());
  while (!deadline.over()) {
    const Socket server = for_candidates(address, false, [](int fd, const addrinfo& a) {
      return connect(fd, a.ai_addr, a.ai_addrlen) == 0;
    });
    const Hello hello{kGreeting, process, processes, bytes};
    if (server && send_all(server.get(), &hello, sizeof hello, deadline) &&
        receive_all(server.get(), data, bytes, deadline))
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
  fail(ErrorKind::kCommunicator, "process ", process, ": nothing came from ", text_of(address),
       " within ", comm_timeout(), " s; is process 0 there?");
}

}  // namespace

void tcp_broadcast(const TcpAddress& address, int process, int processes, void* data,
                   size_t bytes) {
  if (processes <= 1) return;
  if (process == 0)
    serve(address, processes, data, bytes);
  else
    fetch(address, process, processes, data, bytes);
}

}  // namespace mxlite
