#include "cpp/kvstore/comm/tcp/socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite {
namespace {

constexpr int kConnectSeconds = 5;

std::string numeric_host(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = {};
  if (getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

// Calls fn(socket, candidate) for the addresses of a host until it returns true. Returns no socket,
// and why in `trouble`, if it never does, or the name server does not answer at present.
template <class Fn>
tcp::Socket for_candidates(const TcpAddress& address, bool passive, std::string& trouble, Fn&& fn) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  const int status =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (status == EAI_AGAIN) {
    trouble = gai_strerror(status);
    return tcp::Socket();
  }
  MX_CHECK_KIND(status == 0, ErrorKind::kCommunicator, "address ", address_text(address), ": ",
                gai_strerror(status));
  tcp::Socket result;
  int error = 0;
  for (const addrinfo* a = list; a && !result; a = a->ai_next) {
    tcp::Socket s(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (s && fn(s, *a))
      result = std::move(s);
    else
      error = errno;
  }
  freeaddrinfo(list);
  MX_CHECK_KIND(result || (error != EMFILE && error != ENFILE), ErrorKind::kCommunicator,
                "no descriptor is left for a connection with ", address_text(address), ": ",
                descriptor_shortage_text(error));
  // An attempt to connect that ends at its limit leaves EINPROGRESS.
  if (!result) trouble = std::strerror(error == EINPROGRESS ? ETIMEDOUT : error);
  return result;
}

}  // namespace

std::string address_text(const TcpAddress& a) {
  const bool v6 = a.host.find(':') != std::string::npos;
  return v6 ? str('[', a.host, "]:", a.port) : str(a.host, ':', a.port);
}

TcpAddress address_from_text(const char* source, const std::string& text) {
  const size_t colon = text.rfind(':');
  TcpAddress address;
  if (colon != std::string::npos && colon > 0) {
    address.host = text.substr(0, colon);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, address.port);
    if (read.ec != std::errc() || read.ptr != end) address.port = 0;
  }
  MX_CHECK(address.port > 0 && address.port <= 65535, source, ": '", text.substr(0, 100),
           "' given, 'host:port' expected");
  return address;
}

std::string interface_address(const std::string& name) {
  ifaddrs* list = nullptr;
  std::string found, known;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
      known += str(known.empty() ? "" : ", ", i->ifa_name);
      if (name == i->ifa_name && found.empty())
        found = numeric_host(i->ifa_addr, sizeof(sockaddr_in));
    }
    freeifaddrs(list);
  }
  MX_CHECK(!found.empty(), "environment variable DMLC_INTERFACE='", name,
           "' given, one of this host's interfaces expected: ", known);
  return found;
}

namespace tcp {
namespace {

// The descriptors of this process's sockets, which its forks close.
struct OwnDescriptors {
  std::mutex mutex;
  std::vector<int> all;       // guarded by mutex
  std::atomic<int> forks{0};  // changes in forks, under the mutex
};

OwnDescriptors& own_descriptors();

void lock_for_fork() { own_descriptors().mutex.lock(); }
void unlock_after_fork() { own_descriptors().mutex.unlock(); }

void close_in_child() {
  OwnDescriptors& own = own_descriptors();
  for (const int fd : own.all) close(fd);
  own.all.clear();
  ++own.forks;
  own.mutex.unlock();
}

// Leaked: sockets go away while static objects are being destroyed.
OwnDescriptors& own_descriptors() {
  static OwnDescriptors& own = *new OwnDescriptors;
  static const int registered = pthread_atfork(lock_for_fork, unlock_after_fork, close_in_child);
  static_cast<void>(registered);
  return own;
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  OwnDescriptors& own = own_descriptors();
  std::lock_guard lock(own.mutex);
  own.all.push_back(fd_);
  forks_ = own.forks;
}

Socket::~Socket() {
  if (fd_ < 0) return;
  OwnDescriptors& own = own_descriptors();
  std::lock_guard lock(own.mutex);
  if (forks_ != own.forks) return;
  std::erase(own.all, fd_);
  close(fd_);
}

int Socket::get() const { return forks_ == own_descriptors().forks ? fd_ : -1; }

Socket listen_at(const TcpAddress& address) {
  std::string trouble;
  Socket listener = for_candidates(address, true, trouble, [](const Socket& s, const addrinfo& a) {
    const int yes = 1;
    setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(s.get(), a.ai_addr, a.ai_addrlen) == 0 && listen(s.get(), SOMAXCONN) == 0;
  });
  MX_CHECK_KIND(listener, ErrorKind::kCommunicator, "cannot listen at ", address_text(address),
                ": ", trouble);
  return listener;
}

Socket connect_to(const TcpAddress& address, std::string& trouble) {
  return for_candidates(address, false, trouble, [](const Socket& s, const addrinfo& a) {
    const timeval limit{kConnectSeconds, 0};  // for connect, too
    setsockopt(s.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return connect(s.get(), a.ai_addr, a.ai_addrlen) == 0;
  });
}

Socket accept_from(const Socket& listener, int& shortage) {
  const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0 && is_descriptor_shortage(errno)) shortage = errno;
  return Socket(fd);
}

TcpAddress local_address(const Socket& socket) {
  sockaddr_storage storage{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  socklen_t length = sizeof storage;
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  const bool known = getsockname(socket.get(), address, &length) == 0 &&
                     getnameinfo(address, length, host, sizeof host, port, sizeof port,
                                 NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  MX_CHECK_KIND(known, ErrorKind::kCommunicator, "a socket has no address: ", std::strerror(errno));
  return {host, std::atoi(port)};
}

void set_nonblocking(const Socket& socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
}

void set_no_delay(const Socket& socket) {
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Moved send_some(const Socket& socket, const void* data, size_t bytes) {
  const ssize_t n = send(socket.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return {static_cast<size_t>(n), false};
  return {0, errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR};
}

Moved receive_some(const Socket& socket, void* data, size_t bytes) {
  const ssize_t n = recv(socket.get(), data, bytes, MSG_DONTWAIT);
  if (n > 0) return {static_cast<size_t>(n), false};
  return {0, n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)};
}

}  // namespace tcp
}  // namespace mxlite
