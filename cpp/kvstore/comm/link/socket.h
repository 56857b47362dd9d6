// Sockets of one process: they are closed in its forks, so that peers notice its end.
#pragma once
#include <utility>

namespace mxlite {

// Registers a descriptor that others own: a fork of this process closes it.
class ClosedInForks {
 public:
  explicit ClosedInForks(int fd = -1);
  ClosedInForks(ClosedInForks&& o) noexcept : fd_(std::exchange(o.fd_, -1)), forks_(o.forks_) {}
  ClosedInForks& operator=(ClosedInForks&& o) noexcept {
    std::swap(fd_, o.fd_);
    std::swap(forks_, o.forks_);
    return *this;
  }
  ~ClosedInForks() { end(/*closes=*/false); }
  int get() const;  // -1 in a fork

 protected:
  void end(bool closes) noexcept;

 private:
  int fd_;
  int forks_ = 0;  // forks that had made the process when it got the descriptor
};

// Owns a descriptor. In a fork of the process it has none.
class Socket : public ClosedInForks {
 public:
  using ClosedInForks::ClosedInForks;
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&&) noexcept = default;
  ~Socket() { end(/*closes=*/true); }
  explicit operator bool() const { return get() >= 0; }
};

}  // namespace mxlite
