// TCP sockets that never block. Communicator errors name the address.
#pragma once
#include <string>
#include <utility>

namespace mxlite::server {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;
  int port = 0;
};
std::string address_text(const Address& address);    // "10.0.0.3:9091", "[::1]:9091"
Address address_from_text(const std::string& text);  // communicator error for other texts

bool is_loopback(const std::string& host);               // "localhost", "127.*", "::1"
std::string interface_address(const std::string& name);  // value error for an unknown interface
// Returns this host's address on the route to `address`; sends nothing. Throws a communicator error
// if the host does not resolve or no route leads there.
std::string route_address(const Address& address);

struct Listener {
  Fd fd;
  int port = 0;
};
// Port 0: any. An error says whether the port is in use.
Listener listen_on(const Address& address);
// A socket whose connection is under way or made; an error if the name does not resolve.
Fd begin_connect(const Address& address);
// After it has become writable: empty, or why it failed.
std::string connect_error(int fd);
void set_options(int fd);        // no delay
std::string local_host(int fd);  // this end's address

}  // namespace mxlite::server
