// TCP sockets for processes of a job. Sockets are closed in programs that a child executes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace mxlite {

struct TcpAddress {
  std::string host;  // host name or number
  int port = 0;
};
std::string address_text(const TcpAddress& address);  // "10.0.0.3:9091", "[::1]:9091"
// Throws a value error that begins with `source` for a text that is no "host:port".
TcpAddress address_from_text(const char* source, const std::string& text);

// Returns the IPv4 address of one of this host's interfaces; throws a value error that names
// DMLC_INTERFACE for an unknown one.
std::string interface_address(const std::string& name);

namespace tcp {

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Port 0 selects a free one. Throws a communicator error that says why not.
Socket listen_at(const TcpAddress& address);
// Makes one attempt, of a few seconds at most. Returns no socket, and why in `trouble`, if nothing
// listens there.
Socket connect_to(const TcpAddress& address, std::string& trouble);
// Returns no socket if nobody has connected, or the connection is gone already.
Socket accept_from(const Socket& listener);

TcpAddress local_address(const Socket& socket);  // numeric
void set_nonblocking(const Socket& socket);
void set_no_delay(const Socket& socket);  // sends small messages at once

// Outcome of an attempt that does not wait.
struct Moved {
  size_t bytes = 0;
  bool closed = false;
};
Moved send_some(const Socket& socket, const void* data, size_t bytes);
Moved receive_some(const Socket& socket, void* data, size_t bytes);

}  // namespace tcp
}  // namespace mxlite
