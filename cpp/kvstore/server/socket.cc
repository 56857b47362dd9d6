#include "cpp/kvstore/server/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cpp/base/error.h"

namespace mxlite::server {
namespace {

constexpr int kBacklog = 1024;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

AddressList resolve(const Address& address, bool passive) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const int code = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                               std::to_string(address.port).c_str(), &hints, &list);
  MX_CHECK_KIND(code == 0, ErrorKind::kCommunicator, "parameter server: host '", address.host,
                "' cannot be resolved: ", gai_strerror(code));
  return AddressList(list);
}

std::string numeric_host(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = {};
  if (getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

int port_of(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

std::string address_text(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? str("[", address.host, "]:", address.port) : str(address.host, ":", address.port);
}

Address address_from_text(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address a;
  if (colon != std::string::npos && colon > 0) {
    a.host = text.substr(0, colon);
    if (a.host.size() > 2 && a.host.front() == '[') a.host = a.host.substr(1, a.host.size() - 2);
    for (const char c : text.substr(colon + 1)) {
      if (c < '0' || c > '9' || a.port > 65535) {
        a.port = 0;
        break;
      }
      a.port = a.port * 10 + (c - '0');
    }
  }
  MX_CHECK_KIND(a.port > 0 && a.port <= 65535 && !a.host.empty(), ErrorKind::kCommunicator,
                "parameter server: '", text, "' is no address host:port");
  return a;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
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

Listener listen_on(const Address& address) {
  const AddressList list = resolve(address, true);
  int error = 0;
  for (const addrinfo* a = list.get(); a; a = a->ai_next) {
    Listener listener;
    listener.fd = Fd(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!listener.fd) {
      error = errno;
      continue;
    }
    const int yes = 1;
    setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(listener.fd.get(), a->ai_addr, a->ai_addrlen) != 0 ||
        ::listen(listener.fd.get(), kBacklog) != 0) {
      error = errno;
      continue;
    }
    listener.port = port_of(listener.fd.get());
    return listener;
  }
  if (error == EADDRINUSE)
    fail(ErrorKind::kCommunicator, "parameter server: port ", address.port, " of ", address.host,
         " is in use: another job or a process left behind listens on it; choose another "
         "DMLC_PS_ROOT_PORT (tools/launch.py does) or end that process");
  if (error == EADDRNOTAVAIL)
    fail(ErrorKind::kCommunicator, "parameter server: ", address.host,
         " is no address of this host: set DMLC_NODE_HOST or DMLC_INTERFACE, and start the "
         "scheduler on DMLC_PS_ROOT_URI");
  fail(ErrorKind::kCommunicator, "parameter server: cannot listen on ", address_text(address), ": ",
       std::strerror(error));
}

Fd begin_connect(const Address& address) {
  const AddressList list = resolve(address, false);
  int error = 0;
  for (const addrinfo* a = list.get(); a; a = a->ai_next) {
    Fd fd(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) {
      error = errno;
      continue;
    }
    set_options(fd.get());
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
    error = errno;
  }
  fail(ErrorKind::kCommunicator, "cannot connect to ", address_text(address), ": ",
       std::strerror(error));
}

std::string route_address(const Address& address) {
  const AddressList list = resolve(address, false);
  int error = 0;
  for (const addrinfo* a = list.get(); a; a = a->ai_next) {
    const Fd fd(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Connecting a datagram socket only chooses the route.
    if (fd && ::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) return local_host(fd.get());
    error = errno;
  }
  fail(ErrorKind::kCommunicator, "parameter server: no route to ", address_text(address), ": ",
       std::strerror(error), "; set DMLC_NODE_HOST or DMLC_INTERFACE");
}

std::string connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error ? std::strerror(error) : "";
}

void set_options(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::string local_host(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return numeric_host(reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace mxlite::server
