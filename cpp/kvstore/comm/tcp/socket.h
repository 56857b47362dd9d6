// TCP sockets for processes of a job. They belong to the process that made them: they are closed in
// its forks and in programs that it executes, so that peers notice its end.
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

// Owns a file descriptor. In a fork of the process it has none.
class Socket {
 public:
  explicit Socket(int fd = -1);
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)), forks_(o.forks_) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    std::swap(forks_, o.forks_);
    return *this;
  }
  ~Socket();
  int get() const;
  explicit operator bool() const { return get() >= 0; }

 private:
  int fd_;
  int forks_ = 0;  // forks that had made the process when it got the descriptor
};

// Port 0 selects a free one. Throws a communicator error that says why not.
Socket listen_at(const TcpAddress& address);
// Makes one attempt, of a few seconds at most. Returns no socket, and why in `trouble`, if nothing
// listens there or the host's name cannot be looked up at present.
Socket connect_to(const TcpAddress& address, std::string& trouble);
// Returns no socket if nobody has connected, or the connection is gone already; also, and the error
// (is_descriptor_shortage) in `shortage`, if no descriptor is left for the socket. The connection
// then waits and the listener stays ready to read, so callers pause before the next attempt.
Socket accept_from(const Socket& listener, int& shortage);

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
